package metadata

import (
	"iter"
	"slices"
)

// maxFan bounds the entries of a node. 64 keeps a tree of 100,000 topics three levels deep, and what one change copies
// to a few KiB.
const maxFan = 64

// tree is an ordered map whose versions share their nodes. It is a B+ tree: values in the leaves, and in an inner node
// the lowest key that each child may hold (the first one's is not looked at). Removing does not merge nodes; a node goes
// when it is empty, so the depth is that of the tree's greatest size, which for metadata is one level at most too much.
//
// A node belongs to the edit that made it and may be changed by that edit alone: so a thousand changes in one entry copy
// each node once. Published trees belong to edits that are over.
type tree[K, V any] struct {
	root *node[K, V]
	n    int
	cmp  func(a, b K) int
}

type node[K, V any] struct {
	owner    *edit
	keys     []K
	vals     []V           // leaf
	children []*node[K, V] // inner node
}

// edit is the identity of one run of changes.
type edit struct{ _ byte }

func (n *node[K, V]) leaf() bool { return n.children == nil }

// child returns the index of the child that holds k.
func (n *node[K, V]) child(k K, cmp func(a, b K) int) int {
	i, found := slices.BinarySearchFunc(n.keys[1:], k, cmp)
	if found {
		i++
	}
	return i
}

func (t *tree[K, V]) get(k K) (v V, ok bool) {
	n := t.root
	if n == nil {
		return v, false
	}
	for !n.leaf() {
		n = n.children[n.child(k, t.cmp)]
	}
	i, ok := slices.BinarySearchFunc(n.keys, k, t.cmp)
	if ok {
		v = n.vals[i]
	}
	return v, ok
}

// owned returns n itself when e made it, else a copy that e may change.
func (n *node[K, V]) owned(e *edit) *node[K, V] {
	if n.owner == e {
		return n
	}
	c := &node[K, V]{owner: e, keys: append(make([]K, 0, len(n.keys)+1), n.keys...)}
	if n.leaf() {
		c.vals = append(make([]V, 0, len(n.vals)+1), n.vals...)
	} else {
		c.children = append(make([]*node[K, V], 0, len(n.children)+1), n.children...)
	}
	return c
}

// set stores v under k for the edit e.
func (t *tree[K, V]) set(e *edit, k K, v V) {
	if t.root == nil {
		t.root = &node[K, V]{owner: e}
	}
	root, added := t.root.set(e, k, v, t.cmp)
	if right := root.split(); right != nil {
		root = &node[K, V]{owner: e, keys: []K{root.keys[0], right.keys[0]}, children: []*node[K, V]{root, right}}
	}
	t.root = root
	if added {
		t.n++
	}
}

func (n *node[K, V]) set(e *edit, k K, v V, cmp func(a, b K) int) (self *node[K, V], added bool) {
	n = n.owned(e)
	if n.leaf() {
		i, found := slices.BinarySearchFunc(n.keys, k, cmp)
		if found {
			n.vals[i] = v
			return n, false
		}
		n.keys = slices.Insert(n.keys, i, k)
		n.vals = slices.Insert(n.vals, i, v)
		return n, true
	}
	i := n.child(k, cmp)
	child, added := n.children[i].set(e, k, v, cmp)
	n.children[i] = child
	if right := child.split(); right != nil {
		n.keys = slices.Insert(n.keys, i+1, right.keys[0])
		n.children = slices.Insert(n.children, i+1, right)
	}
	return n, added
}

// split moves the upper half of a node that has grown too big into a new one.
func (n *node[K, V]) split() *node[K, V] {
	if len(n.keys) <= maxFan {
		return nil
	}
	half := len(n.keys) / 2
	right := &node[K, V]{owner: n.owner, keys: slices.Clone(n.keys[half:])}
	clear(n.keys[half:])
	n.keys = n.keys[:half]
	if n.leaf() {
		right.vals = slices.Clone(n.vals[half:])
		clear(n.vals[half:])
		n.vals = n.vals[:half]
	} else {
		right.children = slices.Clone(n.children[half:])
		clear(n.children[half:])
		n.children = n.children[:half]
	}
	return right
}

// remove deletes k for the edit e and reports whether it was there.
func (t *tree[K, V]) remove(e *edit, k K) bool {
	if _, ok := t.get(k); !ok {
		return false
	}
	t.root = t.root.remove(e, k, t.cmp)
	for t.root != nil && !t.root.leaf() && len(t.root.children) == 1 {
		t.root = t.root.children[0]
	}
	t.n--
	return true
}

// remove returns nil when nothing is left. k is there.
func (n *node[K, V]) remove(e *edit, k K, cmp func(a, b K) int) *node[K, V] {
	n = n.owned(e)
	if n.leaf() {
		i, _ := slices.BinarySearchFunc(n.keys, k, cmp)
		n.keys = slices.Delete(n.keys, i, i+1)
		n.vals = slices.Delete(n.vals, i, i+1)
	} else {
		i := n.child(k, cmp)
		if child := n.children[i].remove(e, k, cmp); child != nil {
			n.children[i] = child
		} else {
			n.keys = slices.Delete(n.keys, i, i+1)
			n.children = slices.Delete(n.children, i, i+1)
		}
	}
	if len(n.keys) == 0 {
		return nil
	}
	return n
}

// all iterates in key order.
func (t *tree[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.root.walk(yield)
		}
	}
}

func (n *node[K, V]) walk(yield func(K, V) bool) bool {
	if n.leaf() {
		for i, k := range n.keys {
			if !yield(k, n.vals[i]) {
				return false
			}
		}
		return true
	}
	for _, c := range n.children {
		if !c.walk(yield) {
			return false
		}
	}
	return true
}

// from iterates in key order, beginning with the first key that is not below k.
func (t *tree[K, V]) from(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.root.walkFrom(k, t.cmp, yield)
		}
	}
}

func (n *node[K, V]) walkFrom(k K, cmp func(a, b K) int, yield func(K, V) bool) bool {
	if n.leaf() {
		i, _ := slices.BinarySearchFunc(n.keys, k, cmp)
		for ; i < len(n.keys); i++ {
			if !yield(n.keys[i], n.vals[i]) {
				return false
			}
		}
		return true
	}
	i := n.child(k, cmp)
	if !n.children[i].walkFrom(k, cmp, yield) {
		return false
	}
	for _, c := range n.children[i+1:] {
		if !c.walk(yield) {
			return false
		}
	}
	return true
}
