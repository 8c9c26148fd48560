//! Assigns shards to members.

/// An assignment of shards to members, made by [`plan`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan<'a> {
    owners: Vec<Option<&'a str>>,
    moves: Vec<Move<'a>>,
}

/// A shard that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move<'a> {
    /// The number of the shard.
    pub shard: usize,
    /// The member that has it; none if no live member does.
    pub from: Option<&'a str>,
    /// The member that is to have it.
    pub to: &'a str,
}

impl<'a> Plan<'a> {
    /// Returns the member that is to have the shard; none where there are no members or no such
    /// shard.
    pub fn owner(&self, shard: usize) -> Option<&'a str> {
        self.owners.get(shard).copied().flatten()
    }

    /// Returns the members in the order of the shards that they are to have.
    pub fn owners(&self) -> &[Option<&'a str>] {
        &self.owners
    }

    /// Returns the shards that change hands, in their order: no plan as even as this one has fewer.
    pub fn moves(&self) -> &[Move<'a>] {
        &self.moves
    }
}

/// Shares shards out among members: sticky and even.
///
/// `owners` has an entry for each shard: the member that has it now, or none. Someone who is not
/// among the members counts as none.
///
/// - Every shard gets an owner, if there is a member.
/// - Shares differ by at most one.
/// - A member keeps what it has up to its share, the lowest numbers first. The rest goes to the
///   members below their shares, shard by shard in the order of the ids. So a join moves only
///   what the joiner gets, and a leave only what the leaver had.
/// - The same arguments make the same plan, whatever the order of the members. Ids that are there
///   twice count once.
/// - Plans made while this one is carried out, of any of its moves, have the same owners.
///
/// All members of a group that see the same make the same plan, so nobody has to be asked.
///
/// ```
/// use spindle_protocol::fleet::plan;
///
/// let owners = [Some("a"), Some("a"), Some("b"), Some("b")];
/// let joined = plan(&["a", "b", "c"], &owners);
/// assert_eq!(joined.owners(), [Some("a"), Some("a"), Some("b"), Some("c")]);
/// assert_eq!(joined.moves().len(), 1);
/// ```
pub fn plan<'a>(members: &[&'a str], owners: &[Option<&'a str>]) -> Plan<'a> {
    let mut shares = shares(members, owners);
    let mut planned = vec![None; owners.len()];
    for (shard, owner) in owners.iter().enumerate() {
        let share = owner.and_then(|id| share_of(&mut shares, id));
        if let Some(share) = share.filter(|share| share.left > 0) {
            share.left -= 1;
            planned[shard] = Some(share.id);
        }
    }
    let below = shares.iter().flat_map(|share| std::iter::repeat_n(share.id, share.left));
    let free = planned.iter_mut().filter(|owner| owner.is_none());
    for (owner, id) in free.zip(below) {
        *owner = Some(id);
    }
    let moves = moves(&shares, owners, &planned);
    Plan { owners: planned, moves }
}

/// How many shards a member is to have, of which so many are not named yet.
struct Quota<'a> {
    id: &'a str,
    left: usize,
}

/// Each member's share, in the order of the ids.
///
/// The remainder of the division goes to those who have more than the quotient already, which costs
/// no moves. Of these the id decides: it is as it was when a part of the moves is done.
fn shares<'a>(members: &[&'a str], owners: &[Option<&'a str>]) -> Vec<Quota<'a>> {
    let mut ids = members.to_vec();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Vec::new();
    }
    let (each, rest) = (owners.len() / ids.len(), owners.len() % ids.len());
    let mut held = vec![0_usize; ids.len()];
    for id in owners.iter().flatten() {
        if let Ok(at) = ids.binary_search(id) {
            held[at] += 1;
        }
    }
    let mut first: Vec<usize> = (0..ids.len()).collect();
    first.sort_by_key(|at| held[*at] <= each);
    let mut shares: Vec<Quota> = ids.into_iter().map(|id| Quota { id, left: each }).collect();
    for at in first.into_iter().take(rest) {
        shares[at].left += 1;
    }
    shares
}

fn share_of<'s, 'a>(shares: &'s mut [Quota<'a>], id: &str) -> Option<&'s mut Quota<'a>> {
    let at = shares.binary_search_by(|share| share.id.cmp(id)).ok()?;
    shares.get_mut(at)
}

fn moves<'a>(
    members: &[Quota<'a>],
    owners: &[Option<&'a str>],
    planned: &[Option<&'a str>],
) -> Vec<Move<'a>> {
    let is_member = |id: &&str| members.binary_search_by(|share| share.id.cmp(id)).is_ok();
    let pairs = owners.iter().map(|owner| owner.filter(is_member)).zip(planned).enumerate();
    let moves = pairs.filter_map(|(shard, (from, to))| Some(Move { shard, from, to: (*to)? }));
    moves.filter(|moved| moved.from != Some(moved.to)).collect()
}
