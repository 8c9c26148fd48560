//! Goals: events worth having seen, without which an exploration would be vacuous.

use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// A kind of goals, made by [`goals!`](crate::goals::goals).
pub trait Goal: Copy {
    /// Returns the number of the goal, below 64.
    fn number(self) -> u32;
}

/// A state that knows which goals the step into it met.
pub trait Meets<G> {
    /// Returns true if that step met the goal.
    fn has_met(&self, goal: G) -> bool;
}

/// The goals that the step into a state met. They tell no states apart: two that differ in nothing else
/// have the same future.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Met<G>(u64, PhantomData<G>);

impl<G: Goal> Met<G> {
    pub(crate) fn add(&mut self, goal: G) {
        self.0 |= 1 << goal.number();
    }

    pub(crate) fn has(self, goal: G) -> bool {
        self.0 & (1 << goal.number()) != 0
    }
}

impl<G> Default for Met<G> {
    fn default() -> Met<G> {
        Met(0, PhantomData)
    }
}

impl<G> PartialEq for Met<G> {
    fn eq(&self, _: &Met<G>) -> bool {
        true
    }
}

impl<G> Hash for Met<G> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Declares a kind of goals, each with its words, and the property that one of them is sometimes met.
macro_rules! goals {
    ($visibility:vis enum $name:ident { $($goal:ident: $says:literal,)* }) => {
        /// An event worth having seen: an exploration without it would be vacuous.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $(#[doc = $says] $goal,)*
        }

        impl $crate::goals::Goal for $name {
            fn number(self) -> u32 {
                self as u32
            }
        }

        impl $name {
            /// Returns the property that this goal is sometimes met.
            $visibility fn is_met<M>(self) -> stateright::Property<M>
            where
                M: stateright::Model<State: $crate::goals::Meets<$name>>,
            {
                use $crate::goals::Meets as _;
                // A property's condition captures nothing.
                match self {
                    $($name::$goal => {
                        stateright::Property::sometimes($says, |_, state: &M::State| {
                            state.has_met($name::$goal)
                        })
                    })*
                }
            }
        }
    };
}

pub(crate) use goals;
