/**
 * What a check of the proof is given, and what it says.
 */
import type { DiskEvidence } from "./evidence.ts";
import type { PlayStep } from "./play.ts";
import type { Life } from "./story.ts";

export interface Evidence extends DiskEvidence {
  readonly play: readonly PlayStep[];
  readonly lives: readonly Life[];
  /** What stood on the screen in the end, by step. */
  readonly shown: readonly string[];
}

export interface Check {
  readonly name: string;
  /** In a few words, for people. */
  readonly found: string;
  /** Empty = it holds. */
  readonly problems: readonly string[];
}
