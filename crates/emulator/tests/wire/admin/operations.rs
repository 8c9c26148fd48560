//! Long-running operations.

use super::*;

#[tokio::test]
async fn an_operation_is_done_and_found_by_its_name_until_it_is_deleted() {
    let mut office = Office::with_orders().await;
    let request = database::UpdateDatabaseDdlRequest {
        database: ORDERS.into(),
        statements: vec!["DROP TABLE t".into()],
        operation_id: "drop_t".into(),
        ..Default::default()
    };
    let operation = office.databases.update_database_ddl(request.clone()).await.unwrap();
    let name = format!("{ORDERS}/operations/drop_t");
    assert_eq!(operation.get_ref().name, name);
    let repeated = office.databases.update_database_ddl(request.clone()).await;
    assert_eq!(code(repeated), Code::AlreadyExists);
    for id in ["_auto_9", "Drop", "a/b"] {
        let odd = database::UpdateDatabaseDdlRequest {
            statements: vec![TABLE.into()],
            operation_id: id.into(),
            ..request.clone()
        };
        let refused = office.databases.update_database_ddl(odd).await;
        assert_eq!(code(refused), Code::InvalidArgument, "{id}");
    }

    let get = longrunning::GetOperationRequest { name: name.clone() };
    let found = office.operations.get_operation(get.clone()).await.unwrap();
    assert_eq!(found.get_ref(), operation.get_ref());
    let wait = longrunning::WaitOperationRequest { name: name.clone(), timeout: None };
    assert!(office.operations.wait_operation(wait).await.unwrap().get_ref().done);
    let cancel = longrunning::CancelOperationRequest { name: name.clone() };
    office.operations.cancel_operation(cancel).await.unwrap();
    let list = longrunning::ListOperationsRequest {
        name: format!("{ORDERS}/operations"),
        ..Default::default()
    };
    let listed = office.operations.list_operations(list).await.unwrap().into_inner().operations;
    assert_eq!(listed.len(), 2, "the creation and the update");
    office.operations.delete_operation(longrunning::DeleteOperationRequest { name }).await.unwrap();
    assert_eq!(code(office.operations.get_operation(get).await), Code::NotFound);
}

#[tokio::test]
async fn the_operations_of_an_instances_databases_are_listed() {
    let mut office = Office::with_orders().await;
    let changed = office.update(&["ALTER TABLE t ADD COLUMN w INT64"]).await.unwrap().name;
    let filtered = |filter: &str| database::ListDatabaseOperationsRequest {
        parent: INSTANCE.into(),
        filter: filter.into(),
        ..Default::default()
    };
    let page = office.databases.list_database_operations(filtered("")).await.unwrap().into_inner();
    let names: Vec<String> = page.operations.into_iter().map(|found| found.name).collect();
    assert!(names.contains(&changed) && names.len() == 2, "{names:?}");
    let kind = "type.googleapis.com/google.spanner.admin.database.v1";
    for (filter, found) in [
        (
            format!(
                "(metadata.@type:{kind}.CreateDatabaseMetadata) AND (name:{ORDERS}/operations/)"
            ),
            1,
        ),
        (format!("name:{ORDERS}/operations/"), 2),
        ("(name:none)".to_owned(), 0),
    ] {
        let listed = office.databases.list_database_operations(filtered(&filter)).await;
        let page = listed.unwrap().into_inner();
        assert_eq!(page.operations.len(), found, "{filter}");
    }
    let refused = office.databases.list_database_operations(filtered("done:true")).await;
    assert_eq!(code(refused), Code::Unimplemented);
}
