//! Long-running operations.

use super::*;

#[tokio::test]
async fn an_operation_is_done_and_found_by_its_name_as_long_as_its_database_is_there() {
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
    let delete = longrunning::DeleteOperationRequest { name };
    assert_eq!(code(office.operations.delete_operation(delete).await), Code::Unimplemented);
    office.drop_database(ORDERS).await.unwrap();
    assert_eq!(code(office.operations.get_operation(get).await), Code::NotFound);
}
