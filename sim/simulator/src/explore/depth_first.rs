//! Depth-first search over the states of a world.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::fingerprint;
use super::transition::Transition;
use super::world::World;
use super::{moves, reduce};
use crate::run::{LIVENESS, Violation};

/// The bounds of a search, and what it has found so far.
pub(super) struct DepthFirst<'a> {
    pub(super) reduced: bool,
    /// Maximum length of a run, if shorter runs than a known one are searched.
    depth_max: Option<usize>,
    /// Receives the number of distinct states, and returns whether to continue.
    progress: &'a dyn Fn(u64) -> ControlFlow<()>,
    pub(super) transitions: u64,
    pub(super) depth: usize,
    pub(super) finals: BTreeSet<u64>,
    /// The visited states, each with the length of the shortest run to it.
    pub(super) visited: BTreeMap<u64, usize>,
    pub(super) is_cut_short: bool,
}

/// The transitions of a run, the last of which violates an invariant.
pub(super) type Path = Vec<Transition>;

struct Node {
    /// None once its last transition has been taken.
    world: Option<World>,
    fingerprint: u64,
    moves: Vec<Transition>,
    taken: usize,
}

impl<'a> DepthFirst<'a> {
    pub(super) fn new(
        reduced: bool,
        depth_max: Option<usize>,
        progress: &'a dyn Fn(u64) -> ControlFlow<()>,
    ) -> Self {
        Self {
            reduced,
            depth_max,
            progress,
            transitions: 0,
            depth: 0,
            finals: BTreeSet::new(),
            visited: BTreeMap::new(),
            is_cut_short: false,
        }
    }

    /// Explores all runs from a world. Returns the first run that violates an invariant.
    pub(super) fn run(&mut self, root: World) -> Option<Path> {
        let mut stack = Vec::new();
        if self.enter(root, &mut stack).is_err() {
            return Some(Vec::new());
        }
        while let Some(node) = stack.last_mut() {
            let Some(transition) = node.moves.get(node.taken).cloned() else {
                stack.pop();
                continue;
            };
            node.taken += 1;
            let is_last = node.taken == node.moves.len();
            let world = if is_last { node.world.take() } else { node.world.clone() };
            let Some(mut world) = world else { continue };
            self.transitions += 1;
            let taken = world.take(&transition).and_then(|()| self.enter(world, &mut stack));
            if taken.is_err() {
                let before = stack.iter().map(|node| node.moves[node.taken - 1].clone());
                return Some(before.collect());
            }
            if self.is_cut_short {
                return None;
            }
        }
        None
    }

    /// Adds a state to the stack unless it was visited.
    fn enter(&mut self, world: World, stack: &mut Vec<Node>) -> Result<(), Violation> {
        let fingerprint = fingerprint::of(&world);
        if let Some(first) = stack.iter().rposition(|node| node.fingerprint == fingerprint) {
            return spins(&stack[first..], &world);
        }
        let depth = stack.len();
        if let Some(before) = self.visited.get(&fingerprint)
            && (self.depth_max.is_none() || *before <= depth)
        {
            return Ok(());
        }
        if self.depth_max.is_some_and(|most| depth > most) {
            return Ok(());
        }
        self.visited.insert(fingerprint, depth);
        self.is_cut_short = (self.progress)(self.visited.len() as u64).is_break();
        self.depth = self.depth.max(depth);
        if moves::is_at_rest(&world) {
            self.rests(&world)?;
        }
        let all = moves::all(&world);
        let moves = if self.reduced { reduce::persistent(&world, all) } else { all };
        stack.push(Node { world: Some(world), fingerprint, moves, taken: 0 });
        Ok(())
    }

    fn rests(&mut self, world: &World) -> Result<(), Violation> {
        let differences = world.differences();
        if !differences.is_empty() {
            return Err(unmet(0, differences.join("; "), world));
        }
        let mut users = world.setup.small.users.iter().zip(&world.users);
        if users.all(|(user, done)| *done == user.operations.len()) {
            self.finals.insert(fingerprint::of_state(world));
        }
        Ok(())
    }
}

/// A run that comes back to an earlier state continues forever. It is a violation unless it only delays a message without end.
fn spins(cycle: &[Node], world: &World) -> Result<(), Violation> {
    let messages = |node: &Node| -> Vec<Transition> {
        node.moves.iter().filter(|it| it.is_message()).cloned().collect()
    };
    let taken: Vec<&Transition> = cycle.iter().map(|node| &node.moves[node.taken - 1]).collect();
    let mut delayed = cycle.first().map(messages).unwrap_or_default();
    for node in cycle {
        let here = messages(node);
        delayed.retain(|message| here.contains(message) && !taken.contains(&message));
    }
    if delayed.is_empty() {
        return Err(unmet(2, format!("{} transitions lead back to the same state", cycle.len()), world));
    }
    Ok(())
}

fn unmet(liveness: usize, seen: String, world: &World) -> Violation {
    let (invariant, sentence) = LIVENESS[liveness];
    Violation { invariant, sentence, seen, at: world.at() }
}

/// Returns the violation at the end of a run: of an invariant in the last step, or of the desired state.
pub(super) fn violation(worlds: &[u64], world: &World, last: Result<(), Violation>) -> Option<Violation> {
    let at_rest = || {
        let differences = if moves::is_at_rest(world) { world.differences() } else { Vec::new() };
        (!differences.is_empty()).then(|| unmet(0, differences.join("; "), world))
    };
    let again = || {
        let print = fingerprint::of(world);
        let first = worlds.iter().rposition(|earlier| *earlier == print)?;
        let seen = format!("{} transitions lead back to the same state", worlds.len() - first);
        Some(unmet(2, seen, world))
    };
    last.err().or_else(at_rest).or_else(again)
}
