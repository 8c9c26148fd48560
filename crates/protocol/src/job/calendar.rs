//! Times in UTC as RFC 3339 has them, to the nanosecond.

use crate::Timestamp;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 24 * 60 * 60;

/// Returns the time as a text, with as many digits of the second as it needs.
pub(super) fn text_of(time: Timestamp) -> String {
    let (seconds, nanoseconds) = (time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND));
    let (year, month, day) = date_of(seconds.div_euclid(DAY));
    let of_day = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if nanoseconds == 0 {
        return format!("{date}Z");
    }
    let digits = format!("{nanoseconds:09}");
    format!("{date}.{}Z", digits.trim_end_matches('0'))
}

/// Reads what [`text_of`] wrote, and nothing else.
pub(super) fn time_of(text: &str) -> Option<Timestamp> {
    let (date, of_day) = text.strip_suffix('Z')?.split_once('T')?;
    let (of_day, fraction) = of_day.split_once('.').unwrap_or((of_day, "0"));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(of_day, ':')?;
    let days = days_to(year, month, day);
    let seconds = days.checked_mul(DAY)? + hour * 3_600 + minute * 60 + second;
    let nanoseconds: i64 = format!("{fraction:0<9}").parse().ok()?;
    let time = Timestamp(seconds.checked_mul(SECOND)?.checked_add(nanoseconds)?);
    // One way to write each: a day that no month has comes out as another.
    (text_of(time) == text).then_some(time)
}

fn numbers(text: &str, mark: char) -> Option<[i64; 3]> {
    let numbers = text.split(mark).map(|it| it.parse::<u16>().map(i64::from));
    let numbers: Vec<i64> = numbers.collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// Returns year, month and day of the day so many days after 1970-01-01. The years are counted from
/// March on, so that the leap day is the last of its year.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_has_them_and_read_again() {
        for (text, nanoseconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59.5Z", 951_868_799_500_000_000),
            ("2026-10-25T01:00:00Z", 1_792_890_000_000_000_000),
            ("2026-11-27T02:03:04.000000001Z", 1_795_744_984_000_000_001),
            ("1969-12-31T23:59:59Z", -SECOND),
        ] {
            assert_eq!(text_of(Timestamp(nanoseconds)), text);
            assert_eq!(time_of(text), Some(Timestamp(nanoseconds)), "{text}");
        }
        for time in [i64::MIN + SECOND, i64::MAX - SECOND, 1_709_164_800 * SECOND].map(Timestamp) {
            assert_eq!(time_of(&text_of(time)), Some(time));
        }
    }

    #[test]
    fn no_other_text_is_read() {
        for text in [
            "",
            "2026-11-27",
            "2026-11-27T02:03:04",
            "2026-11-27T02:03:04+01:00",
            "2026-02-29T00:00:00Z",
            "2026-11-27T24:00:00Z",
            "2026-11-27T2:03:04Z",
            "2026-11-27T02:03:04.50Z",
            "2026-11-27T02:03:04.Z",
            "99999-01-01T00:00:00Z",
        ] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }
}
