//! Figures that were measured: kept with their command, date, commit and machine, and quoted by the docs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

const KEPT: &str = "docs/figures.json";

/// Runs a command and keeps each line `NAME: ok KEY=VALUE …` that it prints.
pub fn record(command: &[&str]) -> Result<String, String> {
    let [program, arguments @ ..] = command else { return Err("no command to run".to_string()) };
    let machine = machine();
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{program}`: {error}"))?;
    let output = child.stdout.take().ok_or("the command has no output")?;
    let mut found = Map::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        println!("{line}");
        if let Some((name, figures)) = verdict(&line) {
            let about = json!({
                "line": line.trim_end(),
                "figures": figures,
                "command": command.join(" "),
                "date": told_by("date", &["-u", "+%Y-%m-%d"]),
                "commit": told_by("git", &["rev-parse", "--short=10", "HEAD"]),
                "machine": machine,
            });
            found.insert(name.to_string(), about);
        }
    }
    let status = child.wait().map_err(|error| format!("`{program}`: {error}"))?;
    if !status.success() {
        return Err(format!("`{}` ended with {status}; nothing is kept", command.join(" ")));
    }
    if found.is_empty() {
        return Err(format!("`{}` printed no line `NAME: ok KEY=VALUE …`", command.join(" ")));
    }
    let mut kept = load()?;
    let names: Vec<String> = found.keys().cloned().collect();
    kept.extend(found);
    let text = serde_json::to_string_pretty(&kept).map_err(|error| error.to_string())?;
    fs::write(KEPT, text + "\n").map_err(|error| format!("{KEPT}: {error}"))?;
    Ok(format!("{KEPT}: kept {}", names.join(", ")))
}

/// A figure that is the sum of a column in the docs' tables.
struct Sum {
    /// The kept line and the figure in it.
    figure: (&'static str, &'static str),
    page: &'static str,
    /// The cell by which a row of these tables is told, the last one, and the place of the cell that is added.
    row: &'static str,
    cell: usize,
}

const SUMS: [Sum; 1] =
    [Sum { figure: ("model", "states"), page: "docs/safety.md", row: "complete", cell: 2 }];

/// Fails unless each kept line stands word for word in the docs, line breaks aside, and each sum is that of its table.
pub fn check() -> Result<String, String> {
    let kept = load()?;
    for sum in SUMS {
        let page =
            fs::read_to_string(sum.page).map_err(|error| format!("{}: {error}", sum.page))?;
        let (line, figure) = sum.figure;
        let quoted = kept.get(line).and_then(|about| about["figures"][figure].as_u64());
        let total = total(&page, sum.row, sum.cell);
        if quoted != Some(total) {
            return Err(format!(
                "{}: the rows that end in `{}` add up to {total}; `{line}` has {figure}={quoted:?}",
                sum.page, sum.row
            ));
        }
    }
    let docs = one_line(&docs()?);
    let unquoted: Vec<String> = kept
        .values()
        .filter_map(|about| about["line"].as_str())
        .filter(|line| !docs.contains(&one_line(line)))
        .map(|line| format!("no page of docs/ quotes `{line}`"))
        .collect();
    if unquoted.is_empty() {
        Ok(format!("figures: {} kept, all quoted", kept.len()))
    } else {
        Err(unquoted.join("\n"))
    }
}

/// Adds up a cell of all rows whose last cell is this.
fn total(page: &str, last: &str, cell: usize) -> u64 {
    let rows = page
        .lines()
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<&str>>());
    rows.filter(|cells| cells.last() == Some(&last))
        .filter_map(|cells| cells.get(cell)?.replace(',', "").parse::<u64>().ok())
        .sum()
}

fn load() -> Result<Map<String, Value>, String> {
    if !Path::new(KEPT).exists() {
        return Ok(Map::new());
    }
    let text = fs::read_to_string(KEPT).map_err(|error| format!("{KEPT}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{KEPT}: {error}"))
}

/// The name and the figures of a line that tells of a success.
fn verdict(line: &str) -> Option<(&str, Map<String, Value>)> {
    let (name, rest) = line.split_once(": ok ")?;
    let is_name =
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '-');
    let figures: Option<Map<String, Value>> = rest
        .split_whitespace()
        .map(|pair| pair.split_once('=').map(|(key, value)| (key.to_string(), number(value))))
        .collect();
    figures.filter(|figures| is_name && !figures.is_empty()).map(|figures| (name, figures))
}

fn number(text: &str) -> Value {
    text.parse::<i64>()
        .map(Value::from)
        .or_else(|_| text.parse::<f64>().map(Value::from))
        .unwrap_or_else(|_| Value::from(text))
}

fn docs() -> Result<String, String> {
    let mut all = String::new();
    let mut pages: Vec<_> = fs::read_dir("docs")
        .map_err(|error| format!("docs: {error}"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    for page in pages {
        all +=
            &fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    }
    Ok(all)
}

/// Docs break lines where they like, and quote in code or not.
fn one_line(text: &str) -> String {
    text.replace(['`', '>'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_string();
    format!("{cores} cores, {}, load {load} before", std::env::consts::ARCH)
}

fn told_by(program: &str, arguments: &[&str]) -> String {
    let told = Command::new(program).args(arguments).output();
    told.map_or_else(
        |_| "unknown".to_string(),
        |told| String::from_utf8_lossy(&told.stdout).trim().to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_figures_is_told_from_others() {
        let (name, figures) = verdict("model: ok states=12 seconds=1.5 to=slow").expect("figures");
        assert_eq!(name, "model");
        assert_eq!(figures["states"], 12);
        assert_eq!(figures["seconds"], 1.5);
        assert_eq!(figures["to"], "slow");
        assert!(verdict("model: FAILED states=12").is_none());
        assert!(verdict("== tests: ok, 12 s").is_none());
        assert!(verdict("test a::b: ok then").is_none());
    }

    #[test]
    fn a_table_adds_up_over_the_rows_that_count() {
        let page = "| slow | late answers | 1,200 | 5 | complete |\n| x | y | 7 | 5 | not |\n\
                    | fast | none | 34 | 5 | complete |\n";
        assert_eq!(total(page, "complete", 2), 1_234);
    }

    #[test]
    fn a_quote_may_break_its_line() {
        let page = one_line("seen: `model: ok states=12\nseconds=1`, on");
        assert!(page.contains(&one_line("model: ok states=12 seconds=1")));
    }
}
