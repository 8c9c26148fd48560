//! Statements from a seed.

use crate::ours::{Kept, TABLES};
use crate::random::Random;
use crate::sql::{FunctionCode, functions};
use crate::tree::Tree;

const TYPES: &[&str] = &[
    "BOOL",
    "INT64",
    "FLOAT64",
    "NUMERIC",
    "STRING",
    "BYTES",
    "DATE",
    "TIMESTAMP",
    "JSON",
    "ARRAY<INT64>",
    "ARRAY<STRING>",
];
const COMPARABLE: usize = 8;
const COMPARISONS: &[&str] = &["# = #", "# != #", "# <> #", "# < #", "# <= #", "# > #", "# >= #"];
/// Literals that are none, or nearly none.
const ODD_LITERALS: &[&str] = &[
    "NUMERIC '1.0000000001'",
    "TIMESTAMP '2026-01-02 03:04:05 Z'",
    "TIMESTAMP '2026-01-02 03:04:05 utc'",
    "TIMESTAMP '2026-01-02 03:04:60Z'",
    "TIMESTAMP '2026-01-02+01'",
    "TIMESTAMP '2026-01-02 03:04:05+14:01'",
    "DATE '2026-02-30'",
    "JSON '1e400'",
    "JSON '{'",
    "JSON '123456789012345678901'",
    "9223372036854775808",
    r"'\400'",
    r"b'\u0041'",
    "[1, 'x']",
    "1e",
];
/// Paths into documents.
const PATHS: &[&str] =
    &["'$'", "'$.a'", "'$.b[1]'", "'$.\"a\"'", "'$[0]'", "'$.b.0'", "'a'", "NULL", "'$.a.x'"];
/// Regular expressions.
const EXPRESSIONS: &[&str] = &[
    "'x'",
    "'[a-c]+'",
    "r'(\\d+)-(\\d+)'",
    "r'^\\s*(\\w)'",
    "'a*'",
    "''",
    "'(?i)X|É'",
    "'b$'",
    "r'\\bab\\b'",
    "'(a)|b'",
    "'[^x]'",
    "'.{2,3}?'",
    "'a{,2}'",
    "'{'",
    "'[[:alpha:]]+'",
    "'[]a]'",
    "'(x)?'",
    "r'[\\w%-]'",
    "'a**'",
    "'('",
    "'[b-a]'",
    "'x{1001}'",
    "'(?s).'",
    "'(?:a|b)+?c'",
    "r'\\.'",
    "r'\\-'",
    "'é'",
    "'[à-ü]'",
    "'(?m)^'",
    "r'\\pL'",
    "'(a*)*'",
    "r'\\Ax\\z'",
    "'[a-]'",
    "'[x&&y]'",
    "'0x[[:xdigit:]]+'",
    "r'[^\\d]'",
    "'(?i)[^a-y]'",
    "'+'",
    "NULL",
];
/// Replacements.
const REPLACEMENTS: &[&str] =
    &["'-'", "r'<\\0>'", "r'\\1'", "r'\\2'", "r'\\\\'", "r'\\x'", "r'a\\'", "''", "'é'", "NULL"];
/// Formats of dates and times.
const TIME_FORMATS: &[&str] = &[
    "'%Y-%m-%d'",
    "'%F'",
    "'%T'",
    "'%F %T'",
    "'%Y-%m-%dT%H:%M:%E*S'",
    "'%Y%m%d'",
    "'%E3S'",
    "'%E6S %E9S'",
    "'%j'",
    "'%A %a'",
    "'%B %b %h'",
    "'%e'",
    "'%I%p'",
    "'%R'",
    "'%s'",
    "'%z %Z %Ez'",
    "'%%é'",
    "'%D %x'",
    "'%y'",
    "'%Q'",
    "'%E4Y'",
    "'%X'",
    "'%n%t'",
    "' %d  %m %Y '",
    "'%k'",
    "''",
    "'x'",
    "'%H'",
    "'%E*S%Ez'",
    "'%Y-%m-%d %H:%M:%S%z'",
    "NULL",
];
/// Texts that these formats may read.
const TIMES: &[&str] = &[
    "'2026-01-02'",
    "'2026-1-2'",
    "' 2026-01-02 03:04:05 '",
    "'2026-01-02T03:04:05.123456789'",
    "'20260102'",
    "'03:04:05'",
    "'3: 4:5'",
    "'2026-02-30'",
    "'2026-01-02 03:04:05+0130'",
    "'2026-01-02 03:04:05-14'",
    "'05.5Z'",
    "'05.+01:30'",
    "'5-00:30'",
    "'31  12 9999'",
    "'0001-01-01'",
    "'0000-01-01'",
    "'10000-01-01'",
    "'23'",
    "'60'",
    "''",
    "'x'",
    "'2026- 01-02'",
];
/// Formats, and the types that they take.
const FORMATS: &[(&str, &[&str])] = &[
    ("'%d'", &["INT64"]),
    ("'%5d|%-5d|%05d'", &["INT64", "INT64", "INT64"]),
    ("'%s'", &["STRING"]),
    ("'%5s|%-4s'", &["STRING", "STRING"]),
    ("'%f'", &["FLOAT64"]),
    ("'%.2f %10.0f %010.3f'", &["FLOAT64", "FLOAT64", "FLOAT64"]),
    ("'%f %.9f'", &["NUMERIC", "NUMERIC"]),
    ("'%.2f'", &["NUMERIC"]),
    ("'%t %T'", &["FLOAT64", "FLOAT64"]),
    ("'%t %T'", &["STRING", "STRING"]),
    ("'%t %T'", &["ARRAY<STRING>", "ARRAY<STRING>"]),
    ("'%t%%%T'", &["NUMERIC", "NUMERIC"]),
    ("'%t %T'", &["DATE", "DATE"]),
    ("'%t'", &["ARRAY<INT64>"]),
    ("'%t %T'", &["BOOL", "INT64"]),
    ("'%T'", &["TIMESTAMP"]),
    ("'%i'", &["INT64"]),
    ("'é%8T'", &["STRING"]),
    ("'%s'", &[]),
    ("'x'", &["INT64"]),
    ("'%s'", &["INT64"]),
    ("'%'", &[]),
    ("NULL", &["INT64"]),
    ("'%d'", &["FLOAT64"]),
    ("'%-6t'", &["DATE"]),
    ("''", &[]),
];
/// How deep expressions nest.
const DEPTH: usize = 3;

/// A column that an expression can name.
#[derive(Clone)]
struct Column {
    name: String,
    kind: String,
}

/// Makes statements.
pub struct Generator {
    random: Random,
    columns: Vec<Column>,
    aliases: usize,
    subqueries: usize,
    /// True if an expression may use aggregates.
    folds: bool,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        let random = Random::new(seed);
        Generator { random, columns: Vec::new(), aliases: 0, subqueries: 0, folds: false }
    }

    /// The next statement.
    pub fn statement(&mut self) -> Tree {
        (self.columns, self.aliases, self.subqueries) = (Vec::new(), 0, 0);
        match self.random.below(21) {
            0..8 => self.single(),
            20 => self.kept(),
            8..16 => self.query(None).0,
            16 => self.with(),
            17 => self.insert(),
            18 => self.update(),
            _ => self.delete(),
        }
    }

    /// A query of one expression, on a table or without.
    fn single(&mut self) -> Tree {
        let kind = self.kind();
        if self.random.percent(50) {
            return Tree::node("SELECT #", [self.expr(kind, DEPTH)]);
        }
        self.enter_table("t", "t");
        Tree::node("SELECT # FROM t", [self.expr(kind, DEPTH)])
    }

    /// An expression in a generated column, or in a CHECK. There it has no query inside.
    fn kept(&mut self) -> Tree {
        self.subqueries = usize::MAX;
        for (name, kind) in TABLES[0].columns {
            self.columns.push(Column { name: (*name).into(), kind: (*kind).into() });
        }
        if self.random.percent(40) {
            return Tree::node(&Kept::pattern(None), [self.expr("BOOL", DEPTH)]);
        }
        let kind = TYPES[self.random.below(COMPARABLE)];
        // Beside an expression of another type, a column would convert it.
        let expression = Tree::node(&format!("CAST(# AS {kind})"), [self.expr(kind, DEPTH)]);
        Tree::node(&Kept::pattern(Some(kind)), [expression])
    }

    fn kind(&mut self) -> &'static str {
        TYPES[self.random.below(TYPES.len())]
    }

    fn enter_table(&mut self, table: &str, alias: &str) {
        for table in TABLES.iter().filter(|known| known.name == table) {
            for (name, kind) in table.columns {
                self.columns.push(Column { name: format!("{alias}.{name}"), kind: (*kind).into() });
                if self.random.percent(50) {
                    self.columns.push(Column { name: (*name).into(), kind: (*kind).into() });
                }
            }
        }
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    fn with(&mut self) -> Tree {
        let (first, columns) = self.query(None);
        let name = self.alias();
        self.columns = columns;
        for column in &mut self.columns {
            column.name = format!("{name}.{}", column.name);
        }
        let filter = self.expr("BOOL", 2);
        Tree::node(
            &format!("WITH {name} AS (#) SELECT * FROM {name}#"),
            [first, Tree::node(" WHERE #", [filter]).optional()],
        )
    }

    /// A query, of one column of a type if one is wanted, and the columns that it has.
    fn query(&mut self, wanted: Option<&str>) -> (Tree, Vec<Column>) {
        let outer = self.columns.clone();
        let folds = std::mem::replace(&mut self.folds, false);
        let from = self.from();
        let filter = match self.random.percent(50) {
            true => Tree::node(" WHERE #", [self.expr("BOOL", 2)]).optional(),
            false => Tree::leaf(""),
        };
        let is_grouped = self.random.percent(30);
        let mut keys = Vec::new();
        let mut group = Tree::leaf("");
        if is_grouped {
            if self.random.percent(80) {
                keys = (0..self.random.below(2) + 1).map(|_| self.group_key()).collect();
                let keys = keys.iter().map(|(tree, _)| tree.clone()).collect();
                group = Tree::node(" GROUP BY #", [Tree::list(keys, ", ")]).optional();
            }
            self.folds = true;
        }
        let count = if wanted.is_some() { 1 } else { self.random.below(3) + 1 };
        let mut outputs = Vec::new();
        let mut items = Vec::new();
        for place in 0..count {
            let kind = wanted.unwrap_or_else(|| self.kind()).to_owned();
            let (tree, kind) = match keys.get(place).filter(|_| wanted.is_none()) {
                Some((tree, kind)) => (tree.clone(), kind.clone()),
                None => (self.output(&kind, is_grouped), kind),
            };
            let name = self.alias();
            items.push(Tree::node("# AS #", [tree, Tree::leaf(name.clone())]));
            outputs.push(Column { name, kind });
        }
        let having = match is_grouped && self.random.percent(30) {
            true => Tree::node(" HAVING #", [self.output("BOOL", true)]).optional(),
            false => Tree::leaf(""),
        };
        self.folds = folds;
        let distinct = if self.random.percent(15) { "DISTINCT " } else { "" };
        let order = self.order(&outputs);
        self.columns = outer;
        let parts = [Tree::list(items, ", "), from, filter, group, having, order];
        (Tree::node(&format!("SELECT {distinct}#######"), parts), outputs)
    }

    fn order(&mut self, outputs: &[Column]) -> Tree {
        let can_order = outputs.iter().all(|column| {
            TYPES.iter().position(|kind| *kind == column.kind).is_some_and(|at| at < COMPARABLE)
        });
        if !can_order || self.random.percent(50) {
            return Tree::leaf("");
        }
        let mut items: Vec<String> = (1..=outputs.len()).map(|place| place.to_string()).collect();
        if self.random.percent(50) {
            items = outputs.iter().map(|column| column.name.clone()).collect();
        }
        for item in &mut items {
            if self.random.percent(40) {
                item.push_str(" DESC");
            }
        }
        let limit = match self.random.below(4) {
            0 => format!(" LIMIT {}", self.random.below(4)),
            1 => format!(" LIMIT {} OFFSET {}", self.random.below(4), self.random.below(3)),
            _ => String::new(),
        };
        Tree::leaf(format!(" ORDER BY {}{limit} /* ordered */", items.join(", "))).optional()
    }

    /// An expression of groups or of rows.
    fn output(&mut self, kind: &str, is_grouped: bool) -> Tree {
        if !is_grouped {
            return self.expr(kind, 2);
        }
        let hidden = std::mem::take(&mut self.columns);
        let tree = match self.random.percent(70) {
            true => {
                self.columns = hidden.clone();
                self.aggregate(kind)
            }
            false => self.expr(kind, 1),
        };
        self.columns = hidden;
        tree
    }

    fn aggregate(&mut self, kind: &str) -> Tree {
        let folds = std::mem::replace(&mut self.folds, false);
        let tree = match (kind, self.random.below(6)) {
            ("INT64", 0) => Tree::leaf("COUNT(*)"),
            ("ARRAY<INT64>", _) => self.array_agg("INT64"),
            ("ARRAY<STRING>", _) => self.array_agg("STRING"),
            _ => {
                let forms = forms_giving(kind, true);
                match forms.is_empty() {
                    true => Tree::node("MAX(#)", [self.expr(kind, 1)]),
                    false => {
                        let (name, parameters) = self.random.pick(&forms).clone();
                        let arguments = self.arguments(&parameters, kind, 1);
                        let distinct = if self.random.percent(15) { "DISTINCT " } else { "" };
                        // The rest of an order would be any.
                        let name =
                            if name == "ANY_VALUE" || name == "STRING_AGG" { "MIN" } else { name };
                        let first = arguments.into_iter().take(1);
                        Tree::node(&format!("{name}({distinct}#)"), first)
                    }
                }
            }
        };
        self.folds = folds;
        tree
    }

    fn array_agg(&mut self, kind: &str) -> Tree {
        let ignore = if self.random.percent(50) { " IGNORE NULLS" } else { "" };
        let operand = self.expr(kind, 1);
        Tree::node(&format!("ARRAY_AGG(#{ignore} ORDER BY #)"), [operand.clone(), operand])
    }

    fn group_key(&mut self) -> (Tree, String) {
        let kind = TYPES[self.random.below(COMPARABLE)];
        let columns: Vec<Column> =
            self.columns.iter().filter(|column| column.kind == kind).cloned().collect();
        match columns.is_empty() || self.random.percent(30) {
            true => (self.expr(kind, 1), kind.to_owned()),
            false => (Tree::leaf(self.random.pick(&columns).name.clone()), kind.to_owned()),
        }
    }

    fn from(&mut self) -> Tree {
        let first = self.table();
        let mut steps = vec![Tree::node(" FROM #", [first])];
        for _ in 0..self.random.below(3) {
            let step = match self.random.below(8) {
                0 => Tree::node(", #", [self.table()]),
                1 => Tree::node(" CROSS JOIN #", [self.table()]),
                2 | 3 => {
                    let join = if self.random.percent(50) { "," } else { " LEFT JOIN" };
                    let array = self.expr("ARRAY<INT64>", 1);
                    let name = self.alias();
                    self.columns.push(Column { name: name.clone(), kind: "INT64".into() });
                    Tree::node(&format!("{join} UNNEST(#) AS {name}"), [array])
                }
                kind => {
                    let join = if kind < 6 { "JOIN" } else { "LEFT JOIN" };
                    let table = self.table();
                    let on = self.join_condition();
                    Tree::node(&format!(" {join} # ON #"), [table, on])
                }
            };
            steps.push(step.optional());
        }
        let pattern = "#".repeat(steps.len());
        Tree::node(&pattern, steps)
    }

    fn join_condition(&mut self) -> Tree {
        let keys: Vec<Column> =
            self.columns.iter().filter(|column| column.kind == "INT64").cloned().collect();
        if keys.is_empty() || self.random.percent(30) {
            return self.expr("BOOL", 1);
        }
        let (left, right) =
            (self.random.pick(&keys).name.clone(), self.random.pick(&keys).name.clone());
        Tree::node("# = #", [Tree::leaf(left), Tree::leaf(right)])
    }

    fn table(&mut self) -> Tree {
        let alias = self.alias();
        if self.random.percent(12) && self.subqueries < 2 {
            self.subqueries += 1;
            let outer = std::mem::take(&mut self.columns);
            let (query, columns) = self.query(None);
            self.columns = outer;
            for Column { name, kind } in columns {
                self.columns.push(Column { name: format!("{alias}.{name}"), kind });
            }
            return Tree::node(&format!("(#) AS {alias}"), [query]);
        }
        let table = if self.random.percent(60) { "t" } else { "u" };
        // Sometimes a table is called like a column.
        let alias = if self.random.percent(5) { "b".to_owned() } else { alias };
        self.enter_table(table, &alias);
        Tree::leaf(format!("{table} AS {alias}"))
    }

    fn insert(&mut self) -> Tree {
        let table = &TABLES[self.random.below(TABLES.len())];
        let mut columns = table.columns.to_vec();
        while columns.len() > 1 && self.random.percent(60) {
            columns.remove(self.random.below(columns.len()));
        }
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let from_query = self.random.percent(40);
        let values: Vec<Tree> = columns.iter().map(|(_, kind)| self.expr(kind, 1)).collect();
        let pattern = match from_query {
            true => format!("INSERT INTO {} ({}) SELECT #", table.name, names.join(", ")),
            false => format!("INSERT INTO {} ({}) VALUES (#)", table.name, names.join(", ")),
        };
        // An item that is left out would need its column left out.
        let pattern = pattern.replace('#', &vec!["#"; values.len()].join(", "));
        Tree::node(&pattern, values)
    }

    fn update(&mut self) -> Tree {
        let table = &TABLES[self.random.below(TABLES.len())];
        self.enter_table(table.name, "z");
        let (name, kind) = table.columns[self.random.below(table.columns.len() - 2) + 2];
        let qualifier = if self.random.percent(30) { "z." } else { "" };
        let (value, filter) = (self.expr(kind, 2), self.expr("BOOL", 2));
        let pattern = format!("UPDATE {} AS z SET {qualifier}{name} = # WHERE #", table.name);
        Tree::node(&pattern, [value, filter])
    }

    fn delete(&mut self) -> Tree {
        let table = &TABLES[self.random.below(TABLES.len())];
        self.enter_table(table.name, table.name);
        let filter = self.expr("BOOL", 2);
        let kind = self.kind();
        let returning = match self.random.percent(30) {
            true => Tree::node(" THEN RETURN #", [self.expr(kind, 1)]).optional(),
            false => Tree::leaf(""),
        };
        Tree::node(&format!("DELETE FROM {} WHERE ##", table.name), [filter, returning])
    }

    /// An expression that is of this type, most of the time.
    fn expr(&mut self, kind: &str, depth: usize) -> Tree {
        let kind = if self.random.percent(1) { self.kind() } else { kind };
        if depth == 0 || self.random.percent(25) {
            return self.leaf(kind);
        }
        let below = depth - 1;
        match self.random.below(20) {
            0..7 => self.call(kind, below),
            7..12 => self.operator(kind, below),
            12 => {
                let condition = self.expr("BOOL", below);
                let values = [self.expr(kind, below), self.expr(kind, below)];
                let [then, otherwise] = values;
                Tree::node("CASE WHEN # THEN # ELSE # END", [condition, then, otherwise])
            }
            13 => {
                let operand = self.kind();
                let parts = [
                    self.expr(operand, below),
                    self.expr(operand, below),
                    self.expr(kind, below),
                    self.expr(kind, below),
                ];
                Tree::node("CASE # WHEN # THEN # ELSE # END", parts)
            }
            14..17 => {
                let own = self.kind();
                let cast = if self.random.percent(50) { "CAST" } else { "SAFE_CAST" };
                Tree::node(&format!("{cast}(# AS {kind})"), [self.expr(own, below)])
            }
            17 => self.subquery(kind),
            _ => self.leaf(kind),
        }
    }

    fn subquery(&mut self, kind: &str) -> Tree {
        if self.subqueries >= 3 {
            return self.leaf(kind);
        }
        self.subqueries += 1;
        match kind {
            "BOOL" if self.random.percent(50) => Tree::node("EXISTS(#)", [self.query(None).0]),
            "BOOL" => {
                let own = TYPES[self.random.below(COMPARABLE)];
                let operand = self.expr(own, 1);
                let not = if self.random.percent(30) { " NOT" } else { "" };
                Tree::node(&format!("#{not} IN (#)"), [operand, self.query(Some(own)).0])
            }
            "ARRAY<INT64>" => Tree::node("ARRAY_LENGTH(ARRAY(#))", [self.query(Some("INT64")).0]),
            _ => Tree::node("(#)", [self.query(Some(kind)).0]),
        }
    }

    fn operator(&mut self, kind: &str, depth: usize) -> Tree {
        let comparable = TYPES[self.random.below(COMPARABLE)];
        match (kind, self.random.below(10)) {
            ("BOOL", 0..3) => {
                let pattern = *self.random.pick(COMPARISONS);
                let sides = [self.expr(comparable, depth), self.expr(comparable, depth)];
                Tree::node(&format!("({pattern})"), sides)
            }
            ("BOOL", 3) => {
                let pattern = *self.random.pick(&["(# AND #)", "(# OR #)"]);
                Tree::node(pattern, [self.expr("BOOL", depth), self.expr("BOOL", depth)])
            }
            ("BOOL", 4) => Tree::node("(NOT #)", [self.expr("BOOL", depth)]),
            ("BOOL", 5) => {
                let pattern = *self.random.pick(&["(# IS NULL)", "(# IS NOT NULL)"]);
                let own = self.kind();
                Tree::node(pattern, [self.expr(own, depth)])
            }
            ("BOOL", 6) => {
                let what = *self.random.pick(&["TRUE", "FALSE", "NOT TRUE", "NOT FALSE"]);
                Tree::node(&format!("(# IS {what})"), [self.expr("BOOL", depth)])
            }
            ("BOOL", 7) => {
                let parts = [(); 3].map(|()| self.expr(comparable, depth));
                Tree::node("(# BETWEEN # AND #)", parts)
            }
            ("BOOL", 8) => {
                let parts = [(); 3].map(|()| self.expr(comparable, depth));
                Tree::node("(# IN (#, #))", parts)
            }
            ("BOOL", _) => {
                let operand = self.expr("INT64", depth);
                Tree::node("(# IN UNNEST(#))", [operand, self.expr("ARRAY<INT64>", depth)])
            }
            ("INT64" | "FLOAT64" | "NUMERIC", place) => {
                let own = if self.random.percent(20) { "INT64" } else { kind };
                let pattern =
                    ["(# + #)", "(# - #)", "(# * #)", "(# / #)", "(-#)", "(+#)"][place % 6];
                Tree::node(pattern, [self.expr(own, depth), self.expr(kind, depth)])
            }
            ("STRING", 0..3) => {
                let place = self.expr("INT64", depth);
                let pattern = *self.random.pick(&["#[OFFSET(#)]", "#[SAFE_ORDINAL(#)]"]);
                Tree::node(pattern, [self.expr("ARRAY<STRING>", 0), place])
            }
            ("STRING" | "BYTES" | "ARRAY<INT64>" | "ARRAY<STRING>", _) => {
                Tree::node("(# || #)", [self.expr(kind, depth), self.expr(kind, depth)])
            }
            _ => self.leaf(kind),
        }
    }

    fn call(&mut self, kind: &str, depth: usize) -> Tree {
        let forms = forms_giving(kind, false);
        if forms.is_empty() {
            return self.leaf(kind);
        }
        let (name, parameters) = self.random.pick(&forms).clone();
        let mut arguments = self.arguments(&parameters, kind, depth);
        if name == "EXTRACT" {
            let zone = if arguments.len() > 2 { " AT TIME ZONE 'UTC'" } else { "" };
            arguments.truncate(2);
            arguments.reverse();
            return Tree::node(&format!("EXTRACT(# FROM #{zone})"), arguments);
        }
        if name.starts_with("JSON_") && arguments.len() > 1 {
            // A path has to be written out.
            arguments[1] = Tree::leaf(*self.random.pick(PATHS));
        }
        self.write_out(name, &mut arguments, depth);
        match name.starts_with(|first: char| first.is_ascii_alphabetic()) && name != "LIKE" {
            true => Tree::node(&format!("{name}(#)"), [Tree::list(arguments, ", ")]),
            false => Tree::node(&format!("(# {name} #)"), arguments),
        }
    }

    /// Replaces arguments by texts that mean something to the function.
    fn write_out(&mut self, name: &str, arguments: &mut Vec<Tree>, depth: usize) {
        let mut written = |place: usize, texts: &[&'static str], random: &mut Random| {
            if random.percent(95)
                && let Some(argument) = arguments.get_mut(place)
            {
                *argument = Tree::leaf(*random.pick(texts));
            }
        };
        match name {
            "REGEXP_CONTAINS" | "REGEXP_EXTRACT" | "REGEXP_REPLACE" => {
                written(1, EXPRESSIONS, &mut self.random);
                written(2, REPLACEMENTS, &mut self.random);
            }
            "FORMAT_DATE" => written(0, TIME_FORMATS, &mut self.random),
            "FORMAT_TIMESTAMP" | "PARSE_DATE" | "PARSE_TIMESTAMP" => {
                written(0, TIME_FORMATS, &mut self.random);
                if name.starts_with("PARSE") {
                    written(1, TIMES, &mut self.random);
                }
                written(2, &["'UTC'"], &mut self.random);
            }
            "FORMAT" => {
                let (format, kinds) = *self.random.pick(FORMATS);
                *arguments = vec![Tree::leaf(format)];
                arguments.extend(kinds.iter().map(|kind| self.expr(kind, depth)));
            }
            _ => {}
        }
    }

    fn arguments(&mut self, parameters: &[&str], kind: &str, depth: usize) -> Vec<Tree> {
        let any = match kind.strip_prefix("ARRAY<") {
            Some(element) if parameters.contains(&"ARRAY<T>") => {
                element.trim_end_matches('>').to_owned()
            }
            _ if parameters.contains(&"ARRAY<T>") => "INT64".to_owned(),
            _ => kind.to_owned(),
        };
        let any =
            if parameters.contains(&"ARRAY<T>") && any == kind { "INT64".to_owned() } else { any };
        let mut arguments = Vec::new();
        for parameter in parameters {
            let (text, least, most) =
                match (parameter.strip_suffix("..."), parameter.strip_prefix('[')) {
                    (Some(text), _) => (text, 0, 2),
                    (None, Some(text)) => (text.trim_end_matches(']'), 0, 1),
                    (None, None) => (*parameter, 1, 1),
                };
            for _ in 0..least + self.random.below(most - least + 1) {
                arguments.push(match text {
                    "T" | "T=" => self.expr(&any, depth),
                    "ARRAY<T>" => self.expr(&format!("ARRAY<{any}>"), depth),
                    "ANY" => {
                        let kind = self.kind();
                        self.expr(kind, depth)
                    }
                    "PART" => Tree::leaf(self.part()),
                    "INTERVAL" => {
                        let part = self.part();
                        Tree::node(&format!("INTERVAL # {part}"), [self.expr("INT64", depth)])
                    }
                    text => self.expr(text, depth),
                });
            }
        }
        arguments
    }

    fn part(&mut self) -> &'static str {
        *self.random.pick(&[
            "NANOSECOND",
            "MICROSECOND",
            "MILLISECOND",
            "SECOND",
            "MINUTE",
            "HOUR",
            "DAY",
            "WEEK",
            "ISOWEEK",
            "MONTH",
            "QUARTER",
            "YEAR",
            "ISOYEAR",
            "DAYOFWEEK",
            "DAYOFYEAR",
        ])
    }

    fn leaf(&mut self, kind: &str) -> Tree {
        let columns: Vec<&Column> =
            self.columns.iter().filter(|column| column.kind == kind).collect();
        if !columns.is_empty() && self.random.percent(50) {
            return Tree::leaf(columns[self.random.below(columns.len())].name.clone());
        }
        if self.random.percent(1) {
            return Tree::leaf(*self.random.pick(ODD_LITERALS));
        }
        if self.random.percent(4) {
            return Tree::leaf("NULL");
        }
        if self.random.percent(4) {
            return Tree::leaf(format!("CAST(NULL AS {kind})"));
        }
        Tree::leaf(*self.random.pick(literals(kind)))
    }
}

/// The functions that can give a type, and what they take.
fn forms_giving(kind: &str, aggregates: bool) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found = Vec::new();
    for function in functions() {
        let is_aggregate = matches!(function.code, FunctionCode::Aggregate(_));
        // Another value each time.
        let unsteady =
            matches!(function.code, FunctionCode::Now | FunctionCode::PendingCommitTimestamp)
                || function.name == "GENERATE_UUID";
        if is_aggregate != aggregates || unsteady {
            continue;
        }
        for form in function.forms.split(';') {
            let Some((parameters, result)) = form.split_once("->") else { continue };
            let result = result.trim();
            let is_array = kind.starts_with("ARRAY<");
            if result == kind || result == "T" || result == "ARRAY<T>" && is_array {
                let parameters = parameters.split(", ").map(str::trim);
                let parameters = parameters.filter(|text| !text.is_empty()).collect();
                found.push((function.name, parameters));
            }
        }
    }
    found
}

fn literals(kind: &str) -> &'static [&'static str] {
    match kind {
        "BOOL" => &["TRUE", "FALSE"],
        "INT64" => &[
            "0",
            "1",
            "2",
            "-1",
            "3",
            "7",
            "-3",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "0x1F",
            "4294967296",
        ],
        "FLOAT64" => &[
            "0.0",
            "1.5",
            "-2.5",
            "0.1",
            "1e10",
            "1e308",
            "1e-300",
            "1e400",
            "-0.5",
            ".5",
            "2.",
            "123456.789",
            "777603728.3559151",
            "0.123456789012345678",
        ],
        "NUMERIC" => &[
            "NUMERIC '0'",
            "NUMERIC '1.5'",
            "NUMERIC '-2.5'",
            "NUMERIC '0.000000001'",
            "NUMERIC '99999999999999999999999999999.999999999'",
            "NUMERIC '12.34'",
            "NUMERIC '1e3'",
        ],
        "STRING" => &[
            "''",
            "'x'",
            "'abc'",
            "'é\\u0301ß'",
            "'a%'",
            "'_b'",
            "' 12 '",
            "'-5'",
            "'1.5'",
            "'2026-01-02'",
            "'2026-01-02 03:04:05Z'",
            "'0x1f'",
            "'true'",
            "r'\\n'",
            "'\\x41\\101'",
            "'1e5'",
            "'nan'",
            "'-inf'",
            "'616263'",
            "'YWJj'",
            "'\\n'",
            "'2026-1-2 3:4:5.6+01'",
        ],
        "BYTES" => &["b''", "b'x'", "b'abc'", "b'\\xff\\x00'", "rb'\\x'", "b'a%'", "b'\\303\\251'"],
        "DATE" => &[
            "DATE '2026-01-02'",
            "DATE '0001-01-01'",
            "DATE '9999-12-31'",
            "DATE '2024-02-29'",
            "DATE '2024-1-31'",
            "DATE '2024-12-1'",
        ],
        "TIMESTAMP" => &[
            "TIMESTAMP '2026-01-02 03:04:05Z'",
            "TIMESTAMP '2026-01-02 03:04:05.123456789+01:30'",
            "TIMESTAMP '0001-01-01 00:00:00Z'",
            "TIMESTAMP '9999-12-31 23:59:59.999999999Z'",
            "TIMESTAMP '2026-01-02 03:04:05 UTC'",
            "TIMESTAMP '2026-01-02T03:04:05z'",
            "TIMESTAMP '2026-01-02 +01'",
            "TIMESTAMP '1969-12-31 23:59:59.1-08'",
        ],
        "JSON" => &[
            "JSON '1'",
            "JSON '{\"b\": [1, 2.50], \"a\": null}'",
            "JSON '\"x\"'",
            "JSON '777603728.3559151'",
            "JSON '-0.0'",
            "JSON '1e15'",
            "JSON '5e-324'",
            "JSON '{\"a\": 1, \"a\": 2}'",
            "JSON '[true, {\"x\": \"é\"}]'",
        ],
        "ARRAY<INT64>" => &["[]", "[1]", "[1, 2, NULL]", "ARRAY<INT64>[3, 3]", "[NULL]", "[0, -1]"],
        "ARRAY<STRING>" => &["['x']", "['a', NULL, 'b']", "ARRAY<STRING>[]", "['']"],
        _ => &["NULL"],
    }
}
