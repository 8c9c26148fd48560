//! Writes a tree down as text, to check that the parser reads it as the same tree.

use std::fmt::{self, Display, Formatter};

use crate::sql::ast::{
    Assignment, Expr, ExprKind, FromItem, FromStep, InsertMode, Item, Join, Literal, Name,
    Order, Select, Source, Statement, SubqueryKind, TableName,
};

/// The text of a statement. Every operator gets its own parentheses.
pub fn print(statement: &Statement) -> String {
    match statement {
        Statement::Query(select) => Text(&**select).to_string(),
        Statement::Insert(insert) => {
            let mode = match insert.mode {
                InsertMode::Insert => "",
                InsertMode::OrUpdate => "OR UPDATE ",
                InsertMode::OrIgnore => "OR IGNORE ",
            };
            let columns = list(&insert.columns);
            let table = Text(&insert.table);
            let source = match &insert.source {
                Source::Query(select) => Text(&**select).to_string(),
                Source::Values(rows) => {
                    let rows: Vec<String> =
                        rows.iter().map(|row| format!("({})", list(&row.values))).collect();
                    format!("VALUES {}", rows.join(", "))
                }
            };
            let returning = returning(&insert.returning);
            format!("INSERT {mode}INTO {table} ({columns}) {source}{returning}")
        }
        Statement::Update(update) => {
            let set = |Assignment { table, column, value }: &Assignment| {
                let table =
                    table.as_ref().map_or(String::new(), |table| format!("{}.", Text(table)));
                format!("{table}{} = {}", Text(column), Text(value))
            };
            let set: Vec<String> = update.assignments.iter().map(set).collect();
            let (table, filter) = (Text(&update.table), Text(&update.filter));
            let returning = returning(&update.returning);
            format!("UPDATE {table} SET {} WHERE {filter}{returning}", set.join(", "))
        }
        Statement::Delete(delete) => {
            let returning = returning(&delete.returning);
            format!("DELETE FROM {} WHERE {}{returning}", Text(&delete.table), Text(&delete.filter))
        }
    }
}

fn returning(items: &[Item]) -> String {
    match items.is_empty() {
        true => String::new(),
        false => format!(" THEN RETURN {}", list(items)),
    }
}

struct Text<'a, T>(&'a T);

fn list<T>(items: &[T]) -> String
where
    for<'a> Text<'a, T>: Display,
{
    items.iter().map(|item| Text(item).to_string()).collect::<Vec<_>>().join(", ")
}

fn quoted(f: &mut Formatter<'_>, quote: char, content: &str) -> fmt::Result {
    write!(f, "{quote}")?;
    for next in content.chars() {
        write!(f, "\\U{:08x}", u32::from(next))?;
    }
    write!(f, "{quote}")
}

fn identifier(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    quoted(f, '`', name)
}

fn negation(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

impl Display for Text<'_, Name> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        identifier(f, &self.0.text)
    }
}

impl Display for Text<'_, TableName> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.0.schema {
            identifier(f, schema)?;
            f.write_str(".")?;
        }
        identifier(f, &self.0.name)?;
        if let Some(index) = &self.0.index {
            write!(f, "@{{FORCE_INDEX={}}}", Text(index))?;
        }
        if let Some(alias) = &self.0.alias {
            f.write_str(" AS ")?;
            identifier(f, alias)?;
        }
        Ok(())
    }
}

impl Display for Text<'_, Select> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let select = self.0;
        write!(f, "SELECT {}", list(&select.items))?;
        for (place, step) in select.from.iter().enumerate() {
            let before = match step.join {
                Join::Comma if place == 0 => " FROM",
                Join::Comma => ",",
                Join::Cross => " CROSS JOIN",
                Join::Inner => " JOIN",
                Join::Left => " LEFT JOIN",
            };
            write!(f, "{before} {}", Text(step))?;
        }
        if let Some(filter) = &select.filter {
            write!(f, " WHERE {}", Text(filter))?;
        }
        if !select.order.is_empty() {
            write!(f, " ORDER BY {}", list(&select.order))?;
        }
        if let Some(limit) = &select.limit {
            write!(f, " LIMIT {}", Text(&limit.count))?;
            if let Some(skip) = &limit.skip {
                write!(f, " OFFSET {}", Text(skip))?;
            }
        }
        f.write_str(if select.for_update { " FOR UPDATE" } else { "" })
    }
}

impl Display for Text<'_, FromStep> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let called = |f: &mut Formatter<'_>, alias: &Option<String>| match alias {
            Some(alias) => {
                f.write_str(" AS ")?;
                identifier(f, alias)
            }
            None => Ok(()),
        };
        match &self.0.item {
            FromItem::Table(table) => write!(f, "{}", Text(table))?,
            FromItem::Query { query, alias } => {
                write!(f, "({})", Text(&**query))?;
                called(f, alias)?;
            }
        }
        match &self.0.condition {
            None => Ok(()),
            Some(condition) => write!(f, " ON {}", Text(condition)),
        }
    }
}

impl Display for Text<'_, Order> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let direction = if self.0.descending { "DESC" } else { "ASC" };
        write!(f, "{} {direction}", Text(&self.0.expr))
    }
}

impl Display for Text<'_, Item> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Item::Star { table: None, .. } => f.write_str("*"),
            Item::Star { table: Some(table), .. } => {
                identifier(f, table)?;
                f.write_str(".*")
            }
            Item::Expr { expr, alias } => {
                write!(f, "{}", Text(expr))?;
                if let Some(alias) = alias {
                    f.write_str(" AS ")?;
                    identifier(f, alias)?;
                }
                Ok(())
            }
        }
    }
}

impl Display for Text<'_, Literal> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Literal::Null => f.write_str("NULL"),
            Literal::Bool(value) => write!(f, "{value}"),
            Literal::Integer(value) => write!(f, "{value}"),
            Literal::Float(written) => f.write_str(written),
            Literal::Text(text) => quoted(f, '\'', text),
            Literal::Bytes(bytes) => {
                f.write_str("b'")?;
                bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
                f.write_str("'")
            }
            Literal::Typed(value_type, text) => {
                write!(f, "{value_type} ")?;
                quoted(f, '\'', text)
            }
        }
    }
}

impl Display for Text<'_, Expr> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            ExprKind::Literal(literal) => Text(literal).fmt(f),
            ExprKind::Parameter(name) => write!(f, "@{name}"),
            ExprKind::Column { table, name } => {
                if let Some(table) = table {
                    identifier(f, table)?;
                    f.write_str(".")?;
                }
                identifier(f, name)
            }
            ExprKind::And(parts) => connected(f, parts, "AND"),
            ExprKind::Or(parts) => connected(f, parts, "OR"),
            ExprKind::Not(operand) => write!(f, "(NOT {})", Text(&**operand)),
            ExprKind::Negate(operand) => write!(f, "(- {})", Text(&**operand)),
            ExprKind::Plus(operand) => write!(f, "(+ {})", Text(&**operand)),
            ExprKind::Binary(op, left, right) => {
                write!(f, "({} {} {})", Text(&**left), op.symbol(), Text(&**right))
            }
            ExprKind::Is { operand, what, negated } => {
                let what = what.map_or("NULL".to_owned(), |what| what.to_string());
                write!(f, "({} IS {}{what})", Text(&**operand), negation(*negated))
            }
            ExprKind::In { operand, list: all, negated } => {
                write!(f, "({} {}IN ({}))", Text(&**operand), negation(*negated), list(all))
            }
            ExprKind::Between { operand, low, high, negated } => {
                let (operand, low, high) = (Text(&**operand), Text(&**low), Text(&**high));
                write!(f, "({operand} {}BETWEEN {low} AND {high})", negation(*negated))
            }
            ExprKind::Case { operand, branches, otherwise } => {
                f.write_str("CASE")?;
                operand.iter().try_for_each(|operand| write!(f, " {}", Text(&**operand)))?;
                for (when, then) in branches {
                    write!(f, " WHEN {} THEN {}", Text(when), Text(then))?;
                }
                otherwise.iter().try_for_each(|value| write!(f, " ELSE {}", Text(&**value)))?;
                f.write_str(" END")
            }
            ExprKind::InArray { operand, array, negated } => {
                let (operand, array) = (Text(&**operand), Text(&**array));
                write!(f, "({operand} {}IN UNNEST({array}))", negation(*negated))
            }
            ExprKind::Like { operand, pattern, negated } => {
                let (operand, pattern) = (Text(&**operand), Text(&**pattern));
                write!(f, "({operand} {}LIKE {pattern})", negation(*negated))
            }
            ExprKind::Cast { operand, target, safe } => {
                let safe = if *safe { "SAFE_" } else { "" };
                write!(f, "{safe}CAST({} AS {target})", Text(&**operand))
            }
            ExprKind::Array { element, items } => {
                element.iter().try_for_each(|element| write!(f, "ARRAY<{element}>"))?;
                write!(f, "[{}]", list(items))
            }
            ExprKind::Default => f.write_str("DEFAULT"),
            ExprKind::Call { function, arguments, distinct } => {
                // The one function that has a keyword for its name can't be quoted.
                match function.eq_ignore_ascii_case("IF") {
                    true => f.write_str(function)?,
                    false => identifier(f, function)?,
                }
                let distinct = if *distinct { "DISTINCT " } else { "" };
                write!(f, "({distinct}{})", list(arguments))
            }
            ExprKind::CountRows => f.write_str("COUNT(*)"),
            ExprKind::Interval { amount, unit } => {
                write!(f, "INTERVAL {} {}", Text(&**amount), Text(unit))
            }
            ExprKind::Subquery { kind, query } => {
                let word = match kind {
                    SubqueryKind::Value => "",
                    SubqueryKind::Exists => "EXISTS ",
                };
                write!(f, "{word}({})", Text(&**query))
            }
            ExprKind::InQuery { operand, query, negated } => {
                let (operand, query) = (Text(&**operand), Text(&**query));
                write!(f, "({operand} {}IN ({query}))", negation(*negated))
            }
        }
    }
}

fn connected(f: &mut Formatter<'_>, parts: &[Expr], word: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        f.write_str(if index == 0 { "(" } else { " " })?;
        if index > 0 {
            write!(f, "{word} ")?;
        }
        write!(f, "{}", Text(part))?;
    }
    f.write_str(")")
}
