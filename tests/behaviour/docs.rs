//! The docs quote code that runs.

#[test]
fn the_page_on_testing_quotes_the_test_that_runs_here() {
    let page = include_str!("../../docs/testing.md");
    assert!(page.contains(&format!("```rust\n{}```\n", include_str!("service.rs"))));
}

#[test]
fn every_published_package_carries_its_licences() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = |folder: &std::path::Path| std::fs::read_to_string(folder.join("Cargo.toml"));
    let folders =
        std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut published = 0;
    for folder in folders.chain([root.to_path_buf()]) {
        let Ok(manifest) = manifest(&folder) else { continue };
        if !manifest.contains("license.workspace") && !manifest.contains("license = ")
            || manifest.contains("publish = false")
        {
            continue;
        }
        published += 1;
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = std::fs::read_to_string(folder.join(licence));
            assert!(text.is_ok_and(|text| text.len() > 500), "{}: {licence}", folder.display());
        }
    }
    assert_eq!(published, 4, "the library, the protocol, the embedded Spanner, the program");
}
