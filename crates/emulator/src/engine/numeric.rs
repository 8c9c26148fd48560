//! `NUMERIC`: decimal numbers of 29 digits before the point and nine behind it, exact.

use std::fmt;

const SCALE: u32 = 9;
/// How many of the smallest steps make one.
const ONE: u128 = 10_u128.pow(SCALE);
/// One step more than the largest value.
const LIMIT: u128 = 10_u128.pow(38);

/// The middle of the digits.
const HALF: i128 = 10_i128.pow(19);

/// A `NUMERIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Numeric {
    /// In steps of 10^-9.
    steps: i128,
}

impl Numeric {
    /// The largest value: 38 nines, nine of them behind the point.
    pub const MAX: Numeric = Numeric { steps: LIMIT as i128 - 1 };

    /// Reads a decimal such as `-12.5`, `.5` or `1e-3`. Digits behind the ninth are rounded, half
    /// away from zero. `None` for what is no decimal, or is too large.
    pub fn parse(text: &str) -> Option<Numeric> {
        Numeric::read(text, true)
    }

    /// As [`Numeric::parse`], but `None` if digits would be lost.
    pub fn parse_exact(text: &str) -> Option<Numeric> {
        Numeric::read(text, false)
    }

    /// Returns the number, rounded half away from zero; `None` if it isn't finite, or is too large.
    pub fn from_f64(value: f64) -> Option<Numeric> {
        // A double that is at least half a step has no digits beyond these.
        value.is_finite().then(|| format!("{value:.90}")).and_then(|text| Numeric::parse(&text))
    }

    /// Returns the nearest double.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// Returns the nearest integer, half away from zero; `None` if no INT64 is it.
    pub fn to_i64(self) -> Option<i64> {
        let (whole, rest) = (self.steps.unsigned_abs() / ONE, self.steps.unsigned_abs() % ONE);
        let rounded = i128::try_from(whole + u128::from(rest * 2 >= ONE)).ok()?;
        i64::try_from(if self.steps < 0 { -rounded } else { rounded }).ok()
    }

    /// Returns the sum; `None` if it is too large.
    pub fn checked_add(self, other: Numeric) -> Option<Numeric> {
        self.steps.checked_add(other.steps).and_then(Numeric::of_steps)
    }

    /// Returns the difference; `None` if it is too large.
    pub fn checked_sub(self, other: Numeric) -> Option<Numeric> {
        self.steps.checked_sub(other.steps).and_then(Numeric::of_steps)
    }

    /// Returns the product, rounded half away from zero; `None` if it is too large.
    pub fn checked_mul(self, other: Numeric) -> Option<Numeric> {
        let (left, right) = (self.steps.unsigned_abs(), other.steps.unsigned_abs());
        let (left, left_rest) = (left / ONE, left % ONE);
        let (right, right_rest) = (right / ONE, right % ONE);
        let whole = left.checked_mul(right)?.checked_mul(ONE)?;
        let mixed = left * right_rest + left_rest * right;
        let rest = (left_rest * right_rest + ONE / 2) / ONE;
        self.signed_like_product(other, whole.checked_add(mixed)?.checked_add(rest)?)
    }

    /// Returns the quotient, rounded half away from zero; `None` if it is too large, or of nothing
    /// by zero.
    pub fn checked_div(self, other: Numeric) -> Option<Numeric> {
        let (dividend, divisor) = (self.steps.unsigned_abs(), other.steps.unsigned_abs());
        let (whole, left) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
        // The quotient times `ONE`, bit by bit. No remainder is larger than three divisors, which 128 bits hold.
        let (mut quotient, mut rest) = (0_u128, 0_u128);
        for bit in (0..=ONE.ilog2()).map(|place| ONE >> place & 1).rev() {
            rest = rest * 2 + left * bit;
            quotient =
                quotient.checked_mul(2)?.checked_add(whole * bit)?.checked_add(rest / divisor)?;
            rest %= divisor;
        }
        self.signed_like_product(other, quotient.checked_add(u128::from(rest * 2 >= divisor))?)
    }

    /// Returns the sum, which only has to fit in the end; `None` if it doesn't.
    pub fn sum(all: impl Iterator<Item = Numeric>) -> Option<Numeric> {
        // Sums of what is above and below the middle of the digits can't overflow.
        let (high, low) = all
            .fold((0, 0), |(high, low), next| (high + next.steps / HALF, low + next.steps % HALF));
        i128::checked_mul(high, HALF)?.checked_add(low).and_then(Numeric::of_steps)
    }

    /// Returns the number with the other sign.
    pub fn negated(self) -> Numeric {
        Numeric { steps: -self.steps }
    }

    /// Returns the number without its sign.
    pub fn absolute(self) -> Numeric {
        Numeric { steps: self.steps.abs() }
    }

    fn read(text: &str, may_lose_digits: bool) -> Option<Numeric> {
        let text = text.trim_matches(|next: char| next.is_ascii_whitespace());
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (number, exponent) = match unsigned.split_once(['e', 'E']) {
            None => (unsigned, 0),
            Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|next| next.is_ascii_digit()) {
            return None;
        }
        // How many of the digits lie above the last step.
        let kept = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
        let kept = kept.checked_add(i64::from(SCALE))?;
        let (above, below) = digits.split_at(digits.len().min(usize::try_from(kept).unwrap_or(0)));
        // With more zeros behind its digits, no number fits but zero.
        let missing = kept.saturating_sub(i64::try_from(digits.len()).ok()?).clamp(0, 40);
        let zeros = "0".repeat(usize::try_from(missing).ok()?);
        let steps: i128 = format!("0{above}{zeros}").parse().ok()?;
        if !may_lose_digits && below.bytes().any(|digit| digit != b'0') {
            return None;
        }
        let rounds_up = kept >= 0 && below.bytes().next() >= Some(b'5');
        let steps = steps.checked_add(i128::from(rounds_up))?;
        Numeric::of_steps(if text.starts_with('-') { -steps } else { steps })
    }

    fn of_steps(steps: i128) -> Option<Numeric> {
        (steps.unsigned_abs() < LIMIT).then_some(Numeric { steps })
    }

    fn signed_like_product(self, other: Numeric, steps: u128) -> Option<Numeric> {
        let steps = i128::try_from(steps).ok()?;
        let negative = (self.steps < 0) != (other.steps < 0);
        Numeric::of_steps(if negative { -steps } else { steps })
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric { steps: i128::from(value) * ONE as i128 }
    }
}

/// Without an exponent and without zeros that say nothing: `-12.5`.
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.unsigned_abs();
        let sign = if self.steps < 0 { "-" } else { "" };
        write!(f, "{sign}{}", steps / ONE)?;
        match steps % ONE {
            0 => Ok(()),
            rest => write!(f, ".{}", format!("{rest:09}").trim_end_matches('0')),
        }
    }
}
