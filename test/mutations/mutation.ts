/**
 * A mutation: a mend taken back, and the test that must notice.
 *
 * The simulator's planted bugs (`test/simulation/mutants`) are hunted by seeds. These are for what the simulator does not
 * run: each names the test that fails while the patch is in place. The tables are the files `*.table.ts` beside this one.
 */
import type { Patch } from "../simulation/mutants/patch.ts";

export interface Mutation {
  /** What the broken software does, as a sentence. */
  readonly name: string;
  readonly patches: readonly Patch[];
  /** The test file, from the project's root. */
  readonly file: string;
  /** The test's own name, or a part of it. It must fail; others of the file are not run. */
  readonly test: string;
}
