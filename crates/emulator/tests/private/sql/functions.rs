//! The table of functions.

use super::*;

#[test]
fn no_function_is_absent_that_is_here() {
    let names = functions().map(|function| function.name);
    let both: Vec<_> = names.filter(|name| is_absent(name)).collect();
    assert!(both.is_empty(), "{both:?}");
}

#[test]
fn every_form_of_the_table_is_one() {
    for function in functions() {
        let known = known(function.name).expect("the table makes the map");
        let forms = function.forms.split(';').count();
        assert_eq!(known.signatures.len(), forms, "{}: {}", function.name, function.forms);
    }
    assert_eq!(KNOWN.len(), TABLE.len(), "two functions have one name");
}
