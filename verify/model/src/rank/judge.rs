//! The onlooker: what a step did to the rules, and what comes of a state in the end.

use spindle_protocol::fleet::Ranked;
use spindle_protocol::{Named, Row};

use super::world::{RankStep, RankWorld};
use super::{Goal, RankModel, Rule};
use crate::node::Passage;
use crate::progress::is_chosen;
use crate::scenario::Scenario;
use crate::steps::Step;

impl RankWorld {
    pub(super) fn note_handed(
        &mut self,
        index: usize,
        successor: &str,
        members: &[Ranked],
        model: &RankModel,
    ) {
        let position = model.scenario.members.iter().position(|member| member.id == successor);
        let since = members.iter().find(|member| member.id == successor).map(|member| member.since);
        let (Some(position), Some(since)) = (position, since) else { return };
        let leader = 16 * (index as u64 + 1) + u64::from(self.world.nodes[index].life);
        if self.handed.iter().any(|(by, to, _)| (*by, *to) == (leader, position)) {
            self.notes.meet(Goal::HandedAgain);
        }
        let handed = (leader, position, since);
        if self.handed.contains(&handed) {
            self.notes.breaks(Rule::Once);
        }
        self.handed.push(handed);
    }

    /// Judges what the step did to the lock's row.
    pub(super) fn judge(&mut self, before: Option<&Row>, model: &RankModel) {
        let (Some(before), Some(after)) = (before, self.world.table.lock()) else { return };
        let index = |id: &str| model.scenario.members.iter().position(|member| member.id == id);
        if after.is_released() && !before.is_released() {
            let from = before.writer.id().and_then(index);
            let to = after.writer.successor_id().and_then(index);
            let rank = |index: Option<usize>| index.map(|index| model.ranks[index]);
            if to.is_none() || rank(to) <= rank(from) {
                self.notes.breaks(Rule::ByName);
            }
        }
        let taker = after.writer.id().and_then(index);
        if let Some(taker) = taker.filter(|_| after.token != before.token) {
            self.judge_turn(before, &after, taker, model);
        }
    }

    pub(super) fn judge_turn(
        &mut self,
        before: &Row,
        after: &Row,
        taker: usize,
        model: &RankModel,
    ) {
        let id = |index: usize| model.scenario.members[index].id;
        if before.is_released() && before.writer.successor_id() == Some(id(taker)) {
            return self.notes.meet(Goal::HandedOver);
        }
        let lease = before.lease.unwrap_or_else(|| model.scenario.longest_lease());
        let is_of_term = matches!(before.writer.names(), Named::Term { .. } | Named::Stranger(_));
        let ran_out = is_of_term && !before.is_released();
        let vacant = if ran_out { before.heartbeat + lease } else { before.token };
        // It can't have seen the lock vacant before.
        let vacant = vacant.max(self.minds[taker].born);
        let begun = &self.world.history.begun;
        let last = begun.len().checked_sub(2).and_then(|last| begun[last].writer.id());
        let is_before = |index: usize| {
            let key = |index: usize| (std::cmp::Reverse(model.ranks[index]), id(index));
            let place = self.minds[index].place.as_ref();
            let is_listed = place.is_some_and(|place| place.since.0 <= vacant.0 + 1);
            is_listed && last != Some(id(index)) && key(index) < key(taker)
        };
        if !(0..self.minds.len()).any(is_before) || after.token < vacant {
            return;
        }
        if after.token >= vacant + self.minds[taker].contest.grace() {
            self.notes.meet(Goal::TurnLapsed);
        } else if !self.minds[taker].is_misled {
            self.notes.breaks(Rule::Turn);
        }
    }

    /// Returns true if the highest rank that lives leads in the end, when nothing goes wrong any
    /// more; or somebody has gone for its sake since it became a member.
    pub(super) fn leads_to_the_highest(&self, model: &RankModel) -> bool {
        if !is_chosen(&self.world, model.scenario.progress_checked_one_in) {
            return true;
        }
        let model = RankModel {
            scenario: Scenario { ticks: u16::MAX, ..model.scenario.clone() },
            ..model.clone()
        };
        let mut state = self.clone();
        state.world.late.clear();
        state.old_views = 0;
        if (0..state.minds.len()).all(|index| !state.lives(index)) {
            state.take(&model, RankStep::Lock(Step::Restart(0)));
        }
        for _ in 0..48 {
            state.settle(&model);
            if state.is_led_by_the_highest(&model) {
                return true;
            }
            state.world.pass(&model.scenario, 0);
            state.follow_up(&model);
        }
        false
    }

    pub(super) fn is_led_by_the_highest(&self, model: &RankModel) -> bool {
        let living = (0..self.minds.len()).filter(|index| self.lives(*index));
        let Some(highest) = living.max_by_key(|index| model.ranks[*index]) else { return false };
        let Some(leader) = (0..self.minds.len()).find(|index| self.leads(*index)) else {
            return false;
        };
        let Some(place) = &self.minds[highest].place else { return leader == highest };
        let was_handed =
            self.handed.iter().any(|(_, to, since)| (*to, *since) == (highest, place.since));
        leader == highest || was_handed
    }

    /// Everything that can happen at this instant happens, and nothing goes wrong.
    pub(super) fn settle(&mut self, model: &RankModel) {
        for _ in 0..16 {
            let mut is_still = true;
            for index in 0..self.minds.len() {
                let step = match &self.world.nodes[index].asked {
                    Some(asked) if matches!(asked.passage, Passage::Answered(_)) => {
                        RankStep::Lock(Step::Answer(index))
                    }
                    Some(_) => RankStep::Lock(Step::Exchange(index)),
                    None if self.world.nodes[index].wake_is_due() => {
                        RankStep::Lock(Step::Wake(index))
                    }
                    None if self.minds[index].view.is_some() => RankStep::Decide(index),
                    None if self.minds_now(index) => RankStep::Mind(index),
                    None => continue,
                };
                is_still = false;
                self.take(model, step);
            }
            if is_still {
                return;
            }
        }
    }
}
