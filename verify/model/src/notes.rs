//! The onlooker's notes: goals, without which an exploration would be vacuous, and rules that no
//! step may break.

use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use stateright::{Model, Property};

/// A goal or a rule of a kind that `noted!` makes.
pub trait Noted: Copy + 'static {
    /// All of its kind.
    const ALL: &'static [Self];

    /// Returns its number, below 64.
    fn number(self) -> u32;

    /// Returns the property that this is so.
    fn property<M: Model<State: Holds<Self>>>(self) -> Property<M>;

    /// Returns the property of each of its kind.
    fn properties<M: Model<State: Holds<Self>>>() -> impl Iterator<Item = Property<M>> {
        Self::ALL.iter().map(|noted| noted.property())
    }
}

/// A state that knows if the step into it met a goal, or if no step has broken a rule.
pub trait Holds<T> {
    /// Returns true if the goal was met, or the rule is kept.
    fn holds(&self, what: T) -> bool;
}

/// The goals that the step into a state met, and the rules that are broken for good.
///
/// Goals tell no states apart: two that differ in nothing else have the same future.
#[derive(Clone, Copy, Debug)]
pub struct Notes<G, R> {
    met: u64,
    broken: u64,
    kinds: PhantomData<(G, R)>,
}

impl<G: Noted, R> Notes<G, R> {
    /// Notes that the step under way met a goal.
    pub fn meet(&mut self, goal: G) {
        self.met |= 1 << goal.number();
    }

    /// Returns true if the last step met this goal.
    pub fn has_met(&self, goal: G) -> bool {
        self.met & (1 << goal.number()) != 0
    }

    /// Forgets the goals that the last step met.
    pub fn next_step(&mut self) {
        self.met = 0;
    }
}

impl<G, R: Noted> Notes<G, R> {
    /// Notes that a rule was broken, for good.
    pub fn breaks(&mut self, rule: R) {
        self.broken |= 1 << rule.number();
    }

    /// Returns true if no step has broken this rule.
    pub fn keeps(&self, rule: R) -> bool {
        self.broken & (1 << rule.number()) == 0
    }
}

impl<G, R> Default for Notes<G, R> {
    fn default() -> Notes<G, R> {
        Notes { met: 0, broken: 0, kinds: PhantomData }
    }
}

impl<G, R> PartialEq for Notes<G, R> {
    fn eq(&self, other: &Notes<G, R>) -> bool {
        self.broken == other.broken
    }
}

impl<G, R> Eq for Notes<G, R> {}

impl<G, R> Hash for Notes<G, R> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.broken.hash(hasher);
    }
}

/// Declares goals, each of which is `sometimes` met, or rules that are `always` kept: each with its
/// words, and the property that says so.
macro_rules! noted {
    ($kind:ident: $visibility:vis enum $name:ident { $($item:ident: $says:literal,)* }) => {
        /// The events worth having seen, or the rules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $(#[doc = $says] $item,)*
        }

        impl $crate::notes::Noted for $name {
            const ALL: &'static [Self] = &[$($name::$item),*];

            fn number(self) -> u32 {
                self as u32
            }

            fn property<M>(self) -> stateright::Property<M>
            where
                M: stateright::Model<State: $crate::notes::Holds<$name>>,
            {
                use $crate::notes::Holds as _;
                // A property's condition captures nothing.
                match self {
                    $($name::$item => {
                        stateright::Property::$kind($says, |_, state: &M::State| {
                            state.holds($name::$item)
                        })
                    })*
                }
            }
        }
    };
}

pub(crate) use noted;
