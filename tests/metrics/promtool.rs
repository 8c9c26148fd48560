//! Scrapes of a real exporter, judged by Prometheus's own tool and the rules of `deploy/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How far apart the scrapes are.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// Scrapes of one process, one after another.
#[derive(Default)]
pub struct Recording {
    series: BTreeMap<String, BTreeMap<usize, String>>,
    scrapes: usize,
    /// From each of these scrapes on, as many alerts of each name fire as are said here.
    expected: Vec<(usize, BTreeSet<(&'static str, u32)>)>,
}

impl Recording {
    /// Adds the text of a scrape.
    pub fn scrape(&mut self, text: &str) {
        let rules = include_str!("../../deploy/alerts.yml");
        let words: BTreeSet<_> = rules.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            // A series that no rule reads would only cost time.
            if !series.split('{').next().is_some_and(|name| words.contains(name)) {
                continue;
            }
            let target = "job=\"j\",instance=\"i\"";
            let series = match series.split_once('{') {
                Some((name, labels)) => format!("{name}{{{target},{labels}"),
                None => format!("{series}{{{target}}}"),
            };
            self.series.entry(series).or_default().insert(self.scrapes, value.to_string());
        }
        self.scrapes += 1;
    }

    /// Says which alerts fire at the last scrape, and how many of each.
    pub fn expect(&mut self, alerts: &[(&'static str, u32)]) {
        self.expected.push((self.scrapes - 1, alerts.iter().copied().collect()));
    }

    /// Fails unless exactly those alerts fire. Skips where the tool isn't there.
    pub fn judge(&self, name: &str) {
        // Above each package that has this file.
        let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let root = folders.find(|folder| folder.join("deploy/alerts.yml").is_file()).unwrap();
        let Some(promtool) = promtool(root) else {
            // Past the test's captured output: a test that passes shows none.
            let skip = [root.join(".ci/skip"), "alerts of the tests".into(), "promtool".into()];
            let told = Command::new(&skip[0]).args(&skip[1..]).status();
            assert!(told.is_ok_and(|status| status.success()));
            return;
        };
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.yml"));
        std::fs::write(&file, self.test(&root.join("deploy/alerts.yml"))).unwrap();
        let ran = Command::new(promtool).args(["test", "rules"]).arg(&file).output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ran.status.success(), "{}{}", said(&ran.stdout), said(&ran.stderr));
    }

    fn test(&self, rules: &Path) -> String {
        let mut text = format!(
            "rule_files: [{}]\nevaluation_interval: 10s\ntests:\n  - interval: {}s\n    input_series:\n",
            rules.display(),
            INTERVAL.as_secs()
        );
        for (series, values) in &self.series {
            // Prometheus marks a series that a scrape has no more.
            let value = |scrape: usize| match values.get(&scrape) {
                Some(value) => value,
                None if scrape > 0 && values.contains_key(&(scrape - 1)) => "stale",
                None => "_",
            };
            let values: Vec<_> = (0..self.scrapes).map(value).collect();
            let series = series.replace('\'', "''");
            let _ = writeln!(
                text,
                "      - series: '{series}'\n        values: '{}'",
                values.join(" ")
            );
        }
        text.push_str("    promql_expr_test:\n");
        for (scrape, alerts) in &self.expected {
            let at = *scrape as u64 * INTERVAL.as_secs();
            let _ = writeln!(
                text,
                "      - expr: count by (alertname) (ALERTS{{alertstate=\"firing\"}})\n        \
                 eval_time: {at}s\n        exp_samples:{}",
                if alerts.is_empty() { " []" } else { "" }
            );
            for (alert, count) in alerts {
                let _ = writeln!(
                    text,
                    "          - labels: '{{alertname=\"{alert}\"}}'\n            value: {count}"
                );
            }
        }
        text
    }
}

fn promtool(root: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([root.join("target/prometheus/usr/bin")]);
    folders.map(|folder| folder.join("promtool")).find(|file| file.is_file())
}
