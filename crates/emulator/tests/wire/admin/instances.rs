//! Instances.

use super::*;

#[tokio::test]
async fn an_instance_is_there_from_its_creation_to_its_deletion() {
    let mut office = Office::open().await;
    let created = office.create_instance("orders").await.unwrap();
    assert_eq!((created.name.as_str(), created.processing_units), (INSTANCE, 2_000));
    assert_eq!(created.state(), instance::instance::State::Ready);
    let get = instance::GetInstanceRequest { name: INSTANCE.into(), field_mask: None };
    assert_eq!(office.instances.get_instance(get.clone()).await.unwrap().into_inner(), created);
    assert_eq!(code(office.create_instance("orders").await), Code::AlreadyExists);

    let delete = instance::DeleteInstanceRequest { name: INSTANCE.into() };
    office.instances.delete_instance(delete.clone()).await.unwrap();
    let missing = office.instances.get_instance(get).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let (kind, info) = details(&missing).remove(0);
    let info = rpc::ResourceInfo::decode(info.as_slice()).unwrap();
    assert_eq!(kind, "type.googleapis.com/google.rpc.ResourceInfo");
    assert_eq!(info.resource_name, INSTANCE);
    assert_eq!(code(office.instances.delete_instance(delete).await), Code::NotFound);
}

#[tokio::test]
async fn there_is_a_configuration_to_choose() {
    let mut office = Office::open().await;
    let all = instance::ListInstanceConfigsRequest { parent: PROJECT.into(), ..Default::default() };
    let configs = office.instances.list_instance_configs(all).await.unwrap().into_inner();
    let config = configs.instance_configs[0].clone();
    assert_eq!(config.name, "projects/p/instanceConfigs/emulator-config");
    let get = instance::GetInstanceConfigRequest { name: config.name.clone() };
    assert_eq!(office.instances.get_instance_config(get).await.unwrap().into_inner(), config);
    let get = instance::GetInstanceConfigRequest { name: format!("{}-2", config.name) };
    assert_eq!(code(office.instances.get_instance_config(get).await), Code::NotFound);
}

#[tokio::test]
async fn lists_come_in_pages_sorted_by_name() {
    let mut office = Office::open().await;
    for id in ["cc", "aa", "bb"] {
        office.create_instance(id).await.unwrap();
    }
    let mut request = instance::ListInstancesRequest {
        parent: PROJECT.into(),
        page_size: 2,
        ..Default::default()
    };
    let first = office.instances.list_instances(request.clone()).await.unwrap().into_inner();
    request.page_token = first.next_page_token.clone();
    let second = office.instances.list_instances(request).await.unwrap().into_inner();
    let names = |page: &instance::ListInstancesResponse| -> Vec<String> {
        page.instances.iter().map(|found| found.name.replace("projects/p/instances/", "")).collect()
    };
    assert_eq!(
        (names(&first), names(&second)),
        (vec!["aa".into(), "bb".into()], vec!["cc".into()])
    );
    assert_eq!(second.next_page_token, "");
}

#[tokio::test]
async fn a_filter_of_one_restriction_finds_instances_and_another_one_is_refused() {
    let mut office = Office::open().await;
    for id in ["cc", "aa"] {
        office.create_instance(id).await.unwrap();
    }
    let mut found = async |filter: &str| {
        let request = instance::ListInstancesRequest {
            parent: PROJECT.into(),
            filter: filter.into(),
            ..Default::default()
        };
        let listed = office.instances.list_instances(request).await?.into_inner().instances;
        Ok::<_, Status>(listed.into_iter().map(|found| found.name).collect::<Vec<_>>())
    };
    assert_eq!(found("name:a").await.unwrap(), ["projects/p/instances/aa"]);
    assert!(found("labels.env:a").await.unwrap().is_empty());
    for filter in ["name:a AND name:b", "display_name:a", "name", "labels.:a"] {
        assert_eq!(found(filter).await.unwrap_err().code(), Code::Unimplemented, "{filter}");
    }
}
