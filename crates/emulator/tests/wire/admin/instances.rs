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
async fn an_update_changes_what_its_mask_names_and_nothing_else() {
    let mut office = Office::open().await;
    let created = office.create_instance("orders").await.unwrap();
    let update = |paths: &[&str]| instance::UpdateInstanceRequest {
        instance: Some(instance::Instance {
            name: INSTANCE.into(),
            display_name: "Others".into(),
            processing_units: 500,
            ..Default::default()
        }),
        field_mask: Some(prost_types::FieldMask {
            paths: paths.iter().map(|&path| path.into()).collect(),
        }),
    };
    let operation = office.instances.update_instance(update(&["display_name"])).await.unwrap();
    let updated: instance::Instance =
        made(operation.get_ref(), "google.spanner.admin.instance.v1.Instance");
    assert_eq!((updated.display_name.as_str(), updated.node_count), ("Others", 2));
    assert_eq!(updated.create_time, created.create_time);
    office.instances.update_instance(update(&["processing_units"])).await.unwrap();
    let get = instance::GetInstanceRequest { name: INSTANCE.into(), field_mask: None };
    let found = office.instances.get_instance(get).await.unwrap().into_inner();
    assert_eq!((found.node_count, found.processing_units), (0, 500));
    assert_eq!(code(office.instances.update_instance(update(&[])).await), Code::InvalidArgument);
    assert_eq!(
        code(office.instances.update_instance(update(&["name"])).await),
        Code::Unimplemented
    );
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
async fn instances_are_filtered_by_name_and_labels() {
    let mut office = Office::open().await;
    for (id, env) in [("aa", "dev"), ("bb", "prod")] {
        let mut labels = std::collections::HashMap::new();
        labels.insert("env".to_owned(), env.to_owned());
        let request = instance::CreateInstanceRequest {
            parent: PROJECT.into(),
            instance_id: id.into(),
            instance: Some(instance::Instance {
                display_name: format!("The {id}"),
                labels,
                ..Default::default()
            }),
        };
        office.instances.create_instance(request).await.unwrap();
    }
    for (filter, found) in [
        ("", 2),
        ("name:*", 2),
        ("name:AA", 1),
        ("name=projects/p/instances/aa", 1),
        ("name:/instances/", 2),
        ("labels.env:dev", 1),
        ("labels.env:* AND display_name:bb", 1),
        ("labels.env:dev labels.other:*", 0),
        ("labels.env=prod", 1),
    ] {
        let request = instance::ListInstancesRequest {
            parent: PROJECT.into(),
            filter: filter.into(),
            ..Default::default()
        };
        let page = office.instances.list_instances(request).await.unwrap().into_inner();
        assert_eq!(page.instances.len(), found, "{filter}");
    }
    for filter in ["NOT name:a", "(name:a)", "name:a OR name:b", "state=READY", "name"] {
        let request = instance::ListInstancesRequest {
            parent: PROJECT.into(),
            filter: filter.into(),
            ..Default::default()
        };
        let refused = office.instances.list_instances(request).await;
        assert_eq!(code(refused), Code::Unimplemented, "{filter}");
    }
}
