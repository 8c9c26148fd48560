//! Random numbers, which keep requests apart or tell names apart: the system's, or those of a simulated
//! world.

use std::time::Duration;

use rand::distr::{Distribution, StandardUniform};

/// Draws a number, as [`rand::random`].
pub(crate) fn draw<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(feature = "__simulation")]
    if let Some(drawn) = seeded::draw(&StandardUniform) {
        return drawn;
    }
    rand::random()
}

/// Returns a pause less up to a quarter: those who wait for the same drift apart.
pub fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - draw::<f64>() / 4.0)
}

/// Has everything on this thread draw from a seed from now on.
#[cfg(feature = "__simulation")]
pub(crate) use seeded::draw_from;

#[cfg(feature = "__simulation")]
mod seeded {
    use std::cell::RefCell;

    use rand::SeedableRng as _;
    use rand::distr::Distribution;
    use rand::rngs::SmallRng;

    thread_local! {
        static RANDOM: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
    }

    pub(crate) fn draw_from(seed: u64) {
        RANDOM.set(Some(SmallRng::seed_from_u64(seed)));
    }

    pub(super) fn draw<T>(from: &impl Distribution<T>) -> Option<T> {
        RANDOM.with_borrow_mut(|random| random.as_mut().map(|random| from.sample(random)))
    }
}

#[cfg(all(test, feature = "__simulation"))]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_on_its_thread_alone() {
        let drawn = |seed| {
            let drawing = std::thread::spawn(move || {
                draw_from(seed);
                [draw::<u64>(), draw()]
            });
            drawing.join().unwrap()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_ne!([draw::<u64>(), draw()], drawn(1), "no seed was given here");
    }
}
