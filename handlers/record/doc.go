// Package record holds the lossless message: everything that a source broker had of it, whatever the destination can
// hold. The metadata of a Watermill message is a view over the record that middleware may read and change; Outgoing
// puts the two together again when the message is published.
//
// What a broker cannot hold travels in a declared form, written and read by pairs of pure functions: Fold and Unfold for
// entries in Watermill's format, FoldFields and UnfoldFields for entries of any other shape, FoldTable and UnfoldTable for
// tables whose values have types, FoldTypes and TakeTypes for lists of headers that have none. The tables in ../README.md
// list the forms.
package record
