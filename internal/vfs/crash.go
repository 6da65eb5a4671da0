package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Loss says what a power cut takes of the state that was not synced.
type Loss struct {
	rng     *rand.Rand
	keepAll bool
}

// LoseAll leaves only what was synced.
func LoseAll() Loss { return Loss{} }

// LoseNone leaves everything, as if the kernel had written it all back just before.
func LoseNone() Loss { return Loss{keepAll: true} }

// LoseSome leaves a random part, the same for the same seed and history:
//
//   - of each file's unsynced pages any prefix or any subset, and single pages torn between old and new; any size
//     between the old and the new one, with zeros where the size is there but the page is not;
//   - of each directory's unsynced changes a prefix, since file systems journal names in order. A rename between
//     directories is one change.
//
// Where an unsynced truncation is followed by writes, old bytes may come back beyond the new ones: a file system may
// write a page before it commits the truncation. Whoever cannot bear that syncs after truncating.
func LoseSome(rng *rand.Rand) Loss { return Loss{rng: rng} }

// Crash returns the file system as a machine finds it after a power cut at this moment. Everything in it is durable,
// nothing is locked. The original is not touched, so that one run gives images of many moments.
func (m *Mem) Crash(loss Loss) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	survivors := loss.namesLocked(m)
	copies := map[*memNode]*memNode{}
	image := NewMem()
	image.mu.root = loss.node(m.mu.root, survivors, copies)
	return image
}

// Kill returns the file system as the next process finds it after kill -9 of this one: everything written is there,
// what was not synced is still not durable, no lock is held. The original is not touched.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	copies := map[*memNode]*memNode{}
	image := NewMem()
	image.mu.root = m.mu.root.copyTo(copies)
	for _, c := range m.mu.pending {
		change := slices.Clone(c)
		for i, e := range change {
			change[i].dir = e.dir.copyTo(copies)
			change[i].node = e.node.copyTo(copies)
		}
		image.mu.pending = append(image.mu.pending, change)
	}
	return image
}

// copyTo copies a node and all that can be reached from it, once for every copies.
func (n *memNode) copyTo(copies map[*memNode]*memNode) *memNode {
	if n == nil {
		return nil
	}
	if c, ok := copies[n]; ok {
		return c
	}
	c := &memNode{mode: n.mode, modTime: n.modTime}
	copies[n] = c
	if n.names != nil {
		c.names, c.durableNames = map[string]*memNode{}, map[string]*memNode{}
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			c.names[name] = n.names[name].copyTo(copies)
		}
		for _, name := range slices.Sorted(maps.Keys(n.durableNames)) {
			c.durableNames[name] = n.durableNames[name].copyTo(copies)
		}
		return c
	}
	c.durable, c.content, c.dirty = n.durable.clone(), n.content.clone(), map[int64]bool{}
	for i := range n.dirty {
		c.dirty[i] = true
		if p := n.content.page(i); p != nil && p != n.durable.page(i) {
			own := *p // the original may still write to it
			c.content.pages[i] = &own
		}
	}
	return c
}

// namesLocked decides which names are on the disk after the crash, by directory.
func (l Loss) namesLocked(m *Mem) map[*memNode]map[string]*memNode {
	names := map[*memNode]map[string]*memNode{}
	of := func(dir *memNode) map[string]*memNode {
		if names[dir] == nil {
			names[dir] = maps.Clone(dir.durableNames)
		}
		return names[dir]
	}
	lost := map[*memNode]bool{} // directories whose later changes are lost, because an earlier one is
	for _, c := range m.mu.pending {
		survives := !slices.ContainsFunc(c, func(e nameEdit) bool { return lost[e.dir] }) && l.changeSurvives()
		for _, e := range c {
			if !survives {
				lost[e.dir] = true
				continue
			}
			e.put(of(e.dir))
		}
	}
	return names
}

func (l Loss) changeSurvives() bool {
	if l.rng == nil {
		return l.keepAll
	}
	return l.rng.IntN(8) > 0 // most survive, or images would seldom reach beyond the first few changes
}

// node builds the image of a node from what survives.
func (l Loss) node(n *memNode, survivors map[*memNode]map[string]*memNode, copies map[*memNode]*memNode) *memNode {
	if c, ok := copies[n]; ok {
		return c
	}
	c := &memNode{mode: n.mode, modTime: n.modTime}
	copies[n] = c
	if n.names == nil {
		c.dirty = map[int64]bool{}
		c.durable = l.content(n)
		c.content = c.durable.clone()
		return c
	}
	names := survivors[n]
	if names == nil {
		names = n.durableNames
	}
	c.names, c.durableNames = map[string]*memNode{}, map[string]*memNode{}
	for _, name := range slices.Sorted(maps.Keys(names)) { // sorted, so that a seed decides the same for every file each time
		child := l.node(names[name], survivors, copies)
		c.names[name], c.durableNames[name] = child, child
	}
	return c
}

// content decides what of a file is on the disk after the crash.
func (l Loss) content(n *memNode) memContent {
	image := n.durable.clone()
	if l.rng == nil && !l.keepAll {
		return image
	}
	image.resize(l.size(n))
	subset := l.rng != nil && l.rng.IntN(2) == 0 // else a prefix: what is written back in order
	dirty := slices.Sorted(maps.Keys(n.dirty))
	cut := len(dirty)
	if l.rng != nil && !subset {
		cut = l.rng.IntN(len(dirty) + 1)
	}
	for k, i := range dirty {
		if i >= int64(len(image.pages)) {
			break
		}
		before, after := n.durable.page(i), n.content.page(i)
		switch {
		case subset && l.rng.IntN(3) == 0, !subset && k > cut:
			// lost
		case subset && l.rng.IntN(2) == 0, !subset && k == cut:
			image.pages[i] = l.tornPage(before, after)
		default:
			image.pages[i] = copyPage(after)
		}
	}
	image.zeroTail()
	return image
}

// size is the size after the crash: the old one, the new one or one between.
func (l Loss) size(n *memNode) int64 {
	low, high := min(n.durable.size, n.content.size), max(n.durable.size, n.content.size)
	if l.rng == nil {
		return n.content.size
	}
	switch l.rng.IntN(4) {
	case 0:
		return n.durable.size
	case 1:
		return low + l.rng.Int64N(high-low+1)
	default:
		return n.content.size
	}
}

// tornPage has each of a page's sectors from the old or from the new page: either as a prefix, the commonest, or mixed.
func (l Loss) tornPage(before, after *page) *page {
	const sector = 512
	torn := copyPage(before)
	from := copyPage(after)
	if l.rng.IntN(2) == 0 {
		copy(torn[:], from[:l.rng.IntN(pageSize+1)])
		return torn
	}
	for at := 0; at < pageSize; at += sector {
		if l.rng.IntN(2) == 0 {
			copy(torn[at:at+sector], from[at:at+sector])
		}
	}
	return torn
}

// zeroTail clears the last page beyond the size, as it reads should the file grow again.
func (c *memContent) zeroTail() {
	if tail := c.size % pageSize; tail != 0 && c.pages[c.size/pageSize] != nil {
		last := copyPage(c.pages[c.size/pageSize])
		clear(last[tail:])
		c.pages[c.size/pageSize] = last
	}
}

func copyPage(p *page) *page {
	c := new(page)
	if p != nil {
		*c = *p
	}
	return c
}
