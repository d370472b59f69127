/**
 * Who among the processes or tabs that share a journal store writes to a stream.
 *
 * Two writers of one journal would number their chunks alike and run each tool twice, so the lock is
 * taken before the journal is looked at and given back when it is quiet. It must be the kind that a
 * crash gives back: a Web Lock, a transaction held open; never a file that says so.
 */
export interface WriterLocks {
  /** Does not wait for its holder. */
  acquire(idempotencyKey: string): Promise<WriterLock>;
}

export type WriterLock =
  | { readonly kind: "acquired"; readonly release: () => void }
  /** For people: "another tab", "process 4711". */
  | { readonly kind: "held"; readonly holder: string };
