//! The text by which a member tells the others how it shares.

use std::fmt;

/// The word by which a member says that its term displaced one of its own that had run out.
const RAN_OUT: &str = "ran-out";

/// The text in a member's row of the shards that it shares, such as `shards 60 weight 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Declaration {
    /// The number of the shards.
    pub count: usize,
    /// Its weight.
    pub weight: u32,
    /// True if its term displaced an earlier one of its id that had run out unreleased.
    pub ran_out: bool,
}

impl Declaration {
    /// Reads the text; none if it is no declaration. A word that this version doesn't know says
    /// nothing.
    pub fn read(text: &str) -> Option<Declaration> {
        let mut words = text.split(' ');
        let count =
            words.next().filter(|word| *word == "shards").and(words.next())?.parse().ok()?;
        let mut read = Declaration { count, weight: 1, ran_out: false };
        while let Some(word) = words.next() {
            match word {
                "weight" => read.weight = words.next()?.parse().unwrap_or(1),
                RAN_OUT => read.ran_out = true,
                _ => {}
            }
        }
        Some(read)
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Declaration { count, weight, ran_out } = self;
        write!(f, "shards {count}")?;
        if *weight != 1 {
            write!(f, " weight {weight}")?;
        }
        if *ran_out {
            write!(f, " {RAN_OUT}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_says_how_many_shards_it_shares_its_weight_and_if_its_last_term_ran_out() {
        for (weight, ran_out, text) in [
            (1, false, "shards 256"),
            (3, false, "shards 256 weight 3"),
            (1, true, "shards 256 ran-out"),
            (3, true, "shards 256 weight 3 ran-out"),
        ] {
            let declaration = Declaration { count: 256, weight, ran_out };
            assert_eq!(declaration.to_string(), text);
            assert_eq!(Declaration::read(text), Some(declaration));
        }
    }

    #[test]
    fn what_another_version_says_is_read_as_far_as_it_is_known() {
        let read = |text| Declaration::read(text).map(|it| (it.count, it.weight, it.ran_out));
        assert_eq!(read("shards 7 zones 4 weight 2 and more"), Some((7, 2, false)));
        assert_eq!(read("shards 7 weight x ran-out"), Some((7, 1, true)));
        for text in ["", "shards", "shards x", "weight 3 shards 7", "http://10.0.0.1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
