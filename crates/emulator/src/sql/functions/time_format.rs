//! Dates and timestamps in and from texts of a given format, all in UTC.

use super::extract;
use super::misbound::misbound;
use crate::engine::{Date, Timestamp, Value};
use crate::sql::error::{Result, SqlError};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A part of a format.
#[derive(Clone, Copy)]
enum Part<'a> {
    Character(char),
    /// A `%` and this.
    Element(&'a str),
}

fn parts(format: &str) -> Result<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(next) = rest.chars().next() {
        if next == '\0' {
            return Err(SqlError::unsupported_value("a format with a zero byte"));
        }
        if next != '%' {
            parts.push(Part::Character(next));
            rest = &rest[next.len_utf8()..];
            continue;
        }
        // `%E` has a letter behind it, and some a digit or `*` in between.
        let behind = &rest[1..];
        let middle = match behind.strip_prefix('E') {
            Some(rest) if rest.starts_with(|next: char| next == '*' || next.is_ascii_digit()) => 2,
            Some(_) => 1,
            None => 0,
        };
        let last = behind[middle..].chars().next().map_or(0, char::len_utf8);
        let (element, behind) = behind.split_at(middle + last);
        parts.push(Part::Element(element));
        rest = behind;
    }
    Ok(parts)
}

fn check_zone(function: &str, zone: Option<&Value>) -> Result<()> {
    match zone {
        Some(Value::String(zone)) if zone == "UTC" => Ok(()),
        _ => Err(SqlError::unsupported_value(format_args!(
            "{function} in a time zone other than 'UTC'"
        ))),
    }
}

/// `FORMAT_DATE`
pub fn format_date(arguments: &[Value]) -> Result<Value> {
    let [Value::String(format), Value::Date(date)] = arguments else {
        return Err(misbound("FORMAT_DATE"));
    };
    formatted("FORMAT_DATE", format, |element| of_date(*date, element))
}

/// `FORMAT_TIMESTAMP`
pub fn format_timestamp(arguments: &[Value]) -> Result<Value> {
    let [Value::String(format), Value::Timestamp(moment), zone] = arguments else {
        return Err(misbound("FORMAT_TIMESTAMP"));
    };
    check_zone("FORMAT_TIMESTAMP", Some(zone))?;
    formatted("FORMAT_TIMESTAMP", format, |element| {
        of_time(*moment, element).or_else(|| of_date(moment.date(), element))
    })
}

/// Returns the format with each element as it is shown.
fn formatted(
    function: &str,
    format: &str,
    shown: impl Fn(&str) -> Option<String>,
) -> Result<Value> {
    let mut text = String::new();
    for part in parts(format)? {
        match part {
            Part::Character(next) => text.push(next),
            Part::Element(element) => {
                text.push_str(&shown(element).ok_or_else(|| no_element(element, function))?);
            }
        }
    }
    Ok(Value::String(text))
}

fn no_element(element: &str, function: &str) -> SqlError {
    SqlError::unsupported_value(format_args!("the element %{element} in {function}"))
}

fn of_date(date: Date, element: &str) -> Option<String> {
    let (year, month, day) = date.civil();
    let month_name = MONTHS.get(usize::try_from(month).ok()? - 1)?;
    let part = |name| extract::of_date(date, name);
    let weekday = WEEKDAYS.get(usize::try_from(part("DAYOFWEEK")?).ok()? - 1)?;
    Some(match element {
        "Y" => year.to_string(),
        "E4Y" => format!("{year:04}"),
        "y" => format!("{:02}", year % 100),
        "m" => format!("{month:02}"),
        "d" => format!("{day:02}"),
        "e" => format!("{day:2}"),
        "B" => (*month_name).to_owned(),
        "b" | "h" => month_name[..3].to_owned(),
        "A" => (*weekday).to_owned(),
        "a" => weekday[..3].to_owned(),
        "F" => format!("{year}-{month:02}-{day:02}"),
        "D" | "x" => format!("{month:02}/{day:02}/{:02}", year % 100),
        "j" => format!("{:03}", part("DAYOFYEAR")?),
        "Q" => part("QUARTER")?.to_string(),
        "%" => "%".to_owned(),
        "n" => "\n".to_owned(),
        "t" => "\t".to_owned(),
        _ => return None,
    })
}

fn of_time(moment: Timestamp, element: &str) -> Option<String> {
    let part = |name| extract::of_time(moment, name);
    let (hour, minute, second) = (part("HOUR")?, part("MINUTE")?, part("SECOND")?);
    let nanos = format!("{:09}", moment.subsec_nanos());
    Some(match element {
        "H" => format!("{hour:02}"),
        "I" => format!("{:02}", (hour + 11) % 12 + 1),
        "p" => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        "M" => format!("{minute:02}"),
        "S" => format!("{second:02}"),
        "R" => format!("{hour:02}:{minute:02}"),
        "T" | "X" => format!("{hour:02}:{minute:02}:{second:02}"),
        "s" => moment.seconds().to_string(),
        "Z" => "UTC".to_owned(),
        "z" => "+0000".to_owned(),
        "Ez" => "+00:00".to_owned(),
        "E*S" => {
            let fraction = nanos.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            format!("{second:02}{point}{fraction}")
        }
        _ => {
            let digits = element.strip_prefix('E')?.strip_suffix('S')?.parse().ok()?;
            format!("{second:02}.{}", nanos.get(..digits).filter(|_| digits > 0)?)
        }
    })
}

/// `PARSE_DATE`
pub fn parse_date(arguments: &[Value]) -> Result<Value> {
    let [Value::String(format), Value::String(text)] = arguments else {
        return Err(misbound("PARSE_DATE"));
    };
    let parts = parts(format)?;
    for part in &parts {
        if let Part::Element(element) = part
            && !["Y", "m", "d", "F"].contains(element)
        {
            return Err(no_element(element, "PARSE_DATE"));
        }
    }
    let mut reader = Reader::new("PARSE_DATE", text)?;
    reader.read(&parts)?;
    reader.date().map(Value::Date)
}

/// `PARSE_TIMESTAMP`: in UTC, unless the format has an offset.
pub fn parse_timestamp(arguments: &[Value]) -> Result<Value> {
    const NAME: &str = "PARSE_TIMESTAMP";
    let [Value::String(format), Value::String(text), zone @ ..] = arguments else {
        return Err(misbound(NAME));
    };
    let parts = parts(format)?;
    if !zone.is_empty() || !parts.iter().any(|part| matches!(part, Part::Element("z" | "Ez"))) {
        check_zone(NAME, zone.first())?;
    }
    let mut reader = Reader::new(NAME, text)?;
    reader.read(&parts)?;
    let [hour, minute, second] = reader.clock;
    let seconds = reader.date()?.days() * 86_400 + hour * 3_600 + minute * 60 + second;
    Timestamp::from_nanos(i128::from(seconds - reader.offset) * 1_000_000_000 + reader.nanos)
        .map(Value::Timestamp)
        .ok_or_else(|| reader.failed())
}

/// Reads a text as a format says, and keeps the parts of the date and time that it has read.
struct Reader<'a> {
    function: &'static str,
    text: &'a str,
    rest: &'a str,
    civil: [i64; 3],
    clock: [i64; 3],
    nanos: i128,
    /// In seconds.
    offset: i64,
}

impl<'a> Reader<'a> {
    fn new(function: &'static str, text: &'a str) -> Result<Reader<'a>> {
        if text.contains('\0') {
            return Err(SqlError::unsupported_value(format_args!(
                "{function} of a text with a zero byte"
            )));
        }
        let (civil, clock) = ([1970, 1, 1], [0; 3]);
        let rest = text.trim_start_matches(is_blank);
        Ok(Reader { function, text, rest, civil, clock, nanos: 0, offset: 0 })
    }

    fn failed(&self) -> SqlError {
        SqlError::out_of_range(format!("{}: failed to parse {:?}", self.function, self.text))
    }

    /// Reads what a format says.
    fn read(&mut self, parts: &[Part]) -> Result<()> {
        for (place, part) in parts.iter().enumerate() {
            // A year leaves the digit behind it to the element behind it.
            let is_followed = matches!(parts.get(place + 1), Some(Part::Element(_)));
            self.take(*part, if is_followed { 4 } else { 5 })?;
        }
        Ok(())
    }

    fn take(&mut self, part: Part, digits_of_year: usize) -> Result<()> {
        let element = match part {
            Part::Character(next) if is_blank(next) => {
                self.skip_blanks();
                return Ok(());
            }
            Part::Character(next) => return self.mark(next),
            Part::Element(element) => element,
        };
        match element {
            "Y" => self.civil[0] = self.number(digits_of_year, 0..=10_000)?,
            "m" => self.civil[1] = self.number(2, 1..=12)?,
            "d" => self.civil[2] = self.number(2, 1..=31)?,
            "H" => self.clock[0] = self.number(2, 0..=23)?,
            "M" => self.clock[1] = self.number(2, 0..=59)?,
            "S" => self.clock[2] = self.number(2, 0..=60)?,
            "F" => self.all(&["Y", "-", "m", "-", "d"])?,
            "T" => self.all(&["H", ":", "M", ":", "S"])?,
            "E*S" => {
                self.clock[2] = self.number(2, 0..=60)?;
                self.fraction()?;
            }
            "z" => self.zone(false)?,
            "Ez" => self.zone(true)?,
            _ => return Err(no_element(element, self.function)),
        }
        match self.clock[2] {
            60 => {
                Err(SqlError::unsupported_value(format_args!("{} of a leap second", self.function)))
            }
            _ => Ok(()),
        }
    }

    fn all(&mut self, parts: &[&str]) -> Result<()> {
        parts.iter().try_for_each(|part| match *part {
            "-" => self.mark('-'),
            ":" => self.mark(':'),
            element => {
                // These two skip blanks before each number.
                self.rest = self.rest.trim_start_matches(' ');
                self.take(Part::Element(element), 4)
            }
        })
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    fn mark(&mut self, mark: char) -> Result<()> {
        self.rest = self.rest.strip_prefix(mark).ok_or_else(|| self.failed())?;
        Ok(())
    }

    fn digits(&mut self, most: usize) -> &'a str {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits
    }

    fn number(&mut self, most: usize, range: std::ops::RangeInclusive<i64>) -> Result<i64> {
        let number = self.digits(most).parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| self.failed())
    }

    /// Reads a point and digits, if a point is next. Those beyond nanoseconds say nothing.
    fn fraction(&mut self) -> Result<()> {
        self.nanos = 0;
        let Some(rest) = self.rest.strip_prefix('.') else { return Ok(()) };
        self.rest = rest;
        let digits = self.digits(usize::MAX);
        let nine = format!("{:0<9}", &digits[..digits.len().min(9)]);
        self.nanos =
            nine.parse().ok().filter(|_| !digits.is_empty()).ok_or_else(|| self.failed())?;
        Ok(())
    }

    /// Reads `+hh`, `+hhmm` or, with a colon, `Z` and `+hh:mm`.
    fn zone(&mut self, with_colon: bool) -> Result<()> {
        self.offset = 0;
        if with_colon && self.mark('Z').is_ok() {
            return Ok(());
        }
        let sign = if self.mark('-').is_ok() { -1 } else { self.mark('+').map(|()| 1)? };
        let hours = self.digits(2);
        if with_colon {
            // It may be missing.
            let _ = self.mark(':');
        }
        let behind = self.rest;
        let mut minutes = self.digits(2);
        if minutes.len() != 2 {
            (self.rest, minutes) = (behind, "0");
        }
        let (hour, minute): (i64, i64) = match (hours.parse(), minutes.parse()) {
            (Ok(hour), Ok(minute)) if hours.len() == 2 && minute < 60 => (hour, minute),
            _ => return Err(self.failed()),
        };
        if hour * 60 + minute > 14 * 60 {
            return Err(self.failed());
        }
        self.offset = sign * (hour * 3_600 + minute * 60);
        Ok(())
    }

    /// Returns the date that was read, if nothing is left.
    fn date(&mut self) -> Result<Date> {
        self.skip_blanks();
        let [year, month, day] = self.civil;
        if !(1..=9999).contains(&year) {
            return Err(SqlError::unsupported_value(format_args!(
                "{} of the year {year}",
                self.function
            )));
        }
        let small = |number: i64| u32::try_from(number).unwrap_or(0);
        let date = Date::from_civil(year, small(month), small(day));
        date.filter(|_| self.rest.is_empty()).ok_or_else(|| self.failed())
    }
}

fn is_blank(next: char) -> bool {
    next.is_ascii_whitespace() || next == '\x0B'
}
