//! Chance, where it keeps requests apart or tells names apart: the system's, or that of a simulated
//! world.

use std::time::Duration;

use rand::distr::{Distribution, StandardUniform};

/// Draws a number, as [`rand::random`].
pub(crate) fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(all(feature = "__simulation", unix))]
    if let Some(drawn) = seeded::draw(&StandardUniform) {
        return drawn;
    }
    rand::random()
}

/// Draws an index below `count`.
pub(crate) fn place(count: usize) -> usize {
    random::<u32>() as usize % count.max(1)
}

/// Returns a pause less up to a quarter: those who wait for the same drift apart.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - random::<f64>() / 4.0)
}

/// Has everything on this thread draw from a seed from now on.
#[cfg(all(feature = "__simulation", unix))]
pub(crate) use seeded::draw_from;

#[cfg(all(feature = "__simulation", unix))]
mod seeded {
    use std::cell::RefCell;

    use rand::SeedableRng as _;
    use rand::distr::Distribution;
    use rand::rngs::SmallRng;

    thread_local! {
        static CHANCE: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
    }

    pub(crate) fn draw_from(seed: u64) {
        CHANCE.set(Some(SmallRng::seed_from_u64(seed)));
    }

    pub(super) fn draw<T>(from: &impl Distribution<T>) -> Option<T> {
        CHANCE.with_borrow_mut(|chance| chance.as_mut().map(|chance| from.sample(chance)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_of_them_and_each_is_drawn() {
        let mut drawn = [false; 7];
        (0..1_000).for_each(|_| drawn[place(7)] = true);
        assert_eq!(drawn, [true; 7]);
    }

    #[cfg(all(feature = "__simulation", unix))]
    #[test]
    fn the_same_seed_draws_the_same_on_its_thread_alone() {
        let draw = |seed| {
            let drawing = std::thread::spawn(move || {
                draw_from(seed);
                [random::<u64>(), random()]
            });
            drawing.join().unwrap()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!([random::<u64>(), random()], draw(1), "no seed was given here");
    }
}
