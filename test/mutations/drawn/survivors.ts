/**
 * Mutations drawn by lot that no test notices, and why that is right. A survivor without an entry here fails the run.
 */
export interface Survivor {
  readonly file: string;
  /** A part of the changed lines as they are in the source. */
  readonly from: string;
  /** A part of them as the mutation has them. */
  readonly to: string;
  readonly why: string;
}

export const SURVIVORS: readonly Survivor[] = [];
