//! Sentences that a tired reader reads twice: too long, headless, or in words of another time.
//!
//! A list of places to look, not a verdict.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

const WORDS_MAX: usize = 25;

/// A sentence that starts so says late, or never, who does what.
const HEADLESS: &[&str] = &["what", "who", "whose", "whom", "whether", "which", "whoever"];

const ARCHAISMS: &[&str] = &[
    "by their own lights",
    "lays hands on",
    "thereof",
    "whereof",
    "wherein",
    "herein",
    "hitherto",
    "stated",
    "tenure",
    "tenures",
    "shall",
    "upon",
    "is to be had",
    "are to be had",
    "stand aside",
    "stands aside",
    "none any more",
    "no more than that",
    "for good measure",
    "of use to anybody",
];

const SKIPPED: &[&str] = &["target", ".git", "node_modules", "corpus", "seeds"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Long(usize),
    Headless,
    Archaism(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Long(words) => write!(f, "{words} words"),
            Fault::Headless => f.write_str("headless"),
            Fault::Archaism(words) => write!(f, "`{words}`"),
        }
    }
}

/// A run of prose, and the line that it begins on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passage {
    line: usize,
    text: String,
}

/// Lists every fault below this folder, or only counts them.
pub fn list(counts_only: bool) -> Result<String, String> {
    let mut files = Vec::new();
    find(Path::new("."), &mut files)?;
    files.sort();
    let (mut long, mut headless, mut archaisms, mut sentences) = (0, 0, 0, 0);
    let mut said = Vec::new();
    for file in files {
        let text =
            fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let passages = if file.extension().is_some_and(|it| it == "md") {
            markdown(&text)
        } else {
            [comments(&text), literals(&text)].concat()
        };
        for Passage { line, text } in passages {
            for sentence in split(&text) {
                sentences += 1;
                for fault in faults(&sentence) {
                    match fault {
                        Fault::Long(_) => long += 1,
                        Fault::Headless => headless += 1,
                        Fault::Archaism(_) => archaisms += 1,
                    }
                    said.push(format!("{}:{line}: {fault}: {sentence}", file.display()));
                }
            }
        }
    }
    let counts = format!(
        "prose: sentences={sentences} over_{WORDS_MAX}_words={long} headless={headless} \
         archaisms={archaisms}"
    );
    if counts_only {
        return Ok(counts);
    }
    said.push(counts);
    Ok(said.join("\n"))
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries =
        fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED.contains(&&*name) {
                find(&path, files)?;
            }
        } else if name.ends_with(".md") || name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Paragraphs, list items and table cells, without code.
fn markdown(text: &str) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let (mut in_code, mut open) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            in_code = !in_code;
            open = false;
            continue;
        }
        let is_code = in_code || (line.starts_with("    ") && !open);
        if is_code || trimmed.is_empty() || trimmed.starts_with('#') {
            open = false;
        } else if trimmed.starts_with('|') {
            let cells = trimmed.split('|').map(str::trim).filter(|cell| cell.contains(' '));
            passages.extend(cells.map(|cell| Passage { line: index + 1, text: cell.to_string() }));
            open = false;
        } else {
            let item = trimmed.trim_start_matches(['-', '*', '>']).trim_start();
            let is_item = item.len() < trimmed.len() && trimmed[1..].starts_with([' ', '*', '>']);
            match passages.last_mut().filter(|_| open && !is_item) {
                Some(passage) => passage.text = format!("{} {trimmed}", passage.text),
                None => passages.push(Passage { line: index + 1, text: item.to_string() }),
            }
            open = true;
        }
    }
    passages
}

/// Comments and rustdoc, a paragraph each.
fn comments(text: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let mut block = String::new();
    let mut began = 0;
    for (index, line) in text.lines().chain([""]).enumerate() {
        let trimmed = line.trim();
        let comment = ["///", "//!", "//"].iter().find_map(|mark| trimmed.strip_prefix(mark));
        match comment {
            Some(comment) => {
                if block.is_empty() {
                    began = index;
                }
                block.push_str(comment.strip_prefix(' ').unwrap_or(comment));
                block.push('\n');
            }
            None if !block.is_empty() => {
                let passages = markdown(&block).into_iter();
                found.extend(passages.map(|it| Passage { line: it.line + began, text: it.text }));
                block.clear();
            }
            None => {}
        }
    }
    found
}

/// Texts of logs, errors and panics: string literals of four words and more.
fn literals(text: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    if let Ok(tokens) = text.parse::<TokenStream>() {
        collect(tokens, &mut found);
    }
    found
}

fn collect(tokens: TokenStream, found: &mut Vec<Passage>) {
    let mut is_attribute = false;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) => is_attribute = punct.as_char() == '#' || is_attribute,
            // Rustdoc arrives as `#[doc = "..."]` and is read as a comment already.
            TokenTree::Group(_) if is_attribute => is_attribute = false,
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    let text = text.value();
                    if text.split_whitespace().count() >= 4 && !text.contains('\n') {
                        found.push(Passage { line, text });
                    }
                }
            }
            TokenTree::Ident(_) => {}
        }
    }
}

/// Sentences, with what is quoted as code counted as one word.
fn split(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut in_code = false;
    for character in text.chars() {
        match character {
            '`' => in_code = !in_code,
            ' ' if in_code => plain.push('\u{a0}'),
            _ => plain.push(character),
        }
    }
    let words: Vec<&str> = plain.split(' ').filter(|word| !word.is_empty()).collect();
    let mut sentences = Vec::new();
    let mut sentence: Vec<&str> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        sentence.push(word);
        let closed = word.trim_end_matches([')', '"', '*', '_']);
        let ends = closed.ends_with(['.', '!', '?']) && !closed.ends_with("e.g.");
        let next =
            words.get(index + 1).and_then(|word| word.chars().find(|it| !"*_(\"[".contains(*it)));
        if ends && next.is_none_or(|next| !next.is_lowercase()) {
            sentences.push(sentence.join(" "));
            sentence.clear();
        }
    }
    if !sentence.is_empty() {
        sentences.push(sentence.join(" "));
    }
    sentences
}

fn faults(sentence: &str) -> Vec<Fault> {
    let words: Vec<String> = sentence
        .split([' ', '\u{2014}'])
        .map(|word| word.trim_matches(|it: char| !it.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let mut faults = Vec::new();
    if words.len() > WORDS_MAX {
        faults.push(Fault::Long(words.len()));
    }
    let is_question = sentence.trim_end().ends_with('?');
    if words.len() > 2 && HEADLESS.contains(&words[0].as_str()) && !is_question {
        faults.push(Fault::Headless);
    }
    let padded = format!(" {} ", words.join(" "));
    let found = ARCHAISMS.iter().filter(|words| padded.contains(&format!(" {words} ")));
    faults.extend(found.map(|words| Fault::Archaism(words)));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_where_the_next_begins_and_code_is_one_word() {
        let text = "It holds, e.g. `a b c`. Then `x.y` ends. (So it goes.) And v2.1 stays";
        let sentences = split(text);
        assert_eq!(sentences.len(), 4, "{sentences:?}");
    }

    #[test]
    fn headless_openings_and_archaisms_and_length_are_found() {
        assert_eq!(faults("What is lost is gone."), [Fault::Headless]);
        assert_eq!(faults("What is lost?"), []);
        assert_eq!(faults("A tenure ends here."), [Fault::Archaism("tenure")]);
        let long = "word ".repeat(26);
        assert_eq!(faults(&long), [Fault::Long(26)]);
    }

    #[test]
    fn prose_is_read_from_lists_tables_comments_and_literals_but_not_from_code() {
        let text = "One line\ngoes on.\n\n- item one\n  goes on\n- item two\n\n| a b | c d |\n```\ncode here\n```\n";
        let texts: Vec<String> = markdown(text).into_iter().map(|it| it.text).collect();
        assert_eq!(texts, ["One line goes on.", "item one goes on", "item two", "a b", "c d"]);
        let code = "/// Says so.\nfn f() { error!(\"the lock is not there\") } // why\n";
        assert_eq!(comments(code)[0].text, "Says so.");
        assert_eq!(literals(code)[0].text, "the lock is not there");
    }
}
