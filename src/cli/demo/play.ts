/**
 * The play: what the rehearsal model says and which tools it calls, step by step.
 *
 * One list is both the prompt that is sent and what the proof expects to find, so that the two cannot disagree.
 */

/** A command that leaves a line when it begins and one when it ends: how often it ran can be counted afterwards. */
export interface Deed {
  readonly label: string;
  readonly seconds: number;
}

export interface PlayStep {
  readonly says: string;
  readonly deeds: readonly Deed[];
  /** Whether the file `LETTER` is edited beside the commands. */
  readonly edits: boolean;
}

/** Where commands leave their lines. */
export const DEEDS_FILE = "deeds.log";
export const LETTER_FILE = "letter.txt";
export const LETTER_BEFORE = "Dear reader, this is a draft.\n";
export const LETTER_AFTER = "Dear reader, this is final.\n";

/** Its client is killed while it runs: long enough for that, short enough to be seen to end if nothing stops it. */
const CUT_OFF_SECONDS = 12;

export const PLAY: readonly PlayStep[] = [
  {
    says: "Hello. I am a script, not an AI. While I speak, the demo cuts the network, and you will not lose a single word. Next come two commands and an edit, all at once.",
    deeds: [
      { label: "quick", seconds: 0 },
      { label: "slow", seconds: CUT_OFF_SECONDS },
    ],
    edits: true,
  },
  {
    says: "One command was cut off. How far it got is unknown, and that is what I was told. It does not run twice. While I say this, the client is killed again.",
    deeds: [{ label: "build", seconds: 1.5 }],
    edits: false,
  },
  {
    says: "That command ended while no server was running, and I still got its result. Now the server is killed while I speak, and the next one continues with my next word.",
    deeds: [{ label: "upload", seconds: 1 }],
    edits: false,
  },
  {
    says: "That result had to wait for a network that had gone silent. Finally, everything fails at once: network, client and server. And I still have the last word.",
    deeds: [],
    edits: false,
  },
];

export function beginning({ label }: Deed): string {
  return `${label} begins`;
}

export function ending({ label }: Deed): string {
  return `${label} ends`;
}

export function commandOf(deed: Deed): string {
  const leave = (line: string): string => `echo ${line} >> ${DEEDS_FILE}`;
  const wait = deed.seconds === 0 ? [] : [`sleep ${deed.seconds}`];
  return [leave(beginning(deed)), ...wait, leave(ending(deed))].join("; ");
}

/** The script for the rehearsal model. */
export function promptOf(play: readonly PlayStep[], paceMs: number): string {
  const edit = `edit ${LETTER_FILE} "a draft" -> "final"`;
  const lines = play.flatMap(({ says, deeds, edits }) => [
    `say ${says}`,
    ...deeds.map((deed) => `shell ${commandOf(deed)}`),
    ...(edits ? [edit] : []),
  ]);
  return [`pace ${paceMs} ms`, ...lines].join("\n");
}

/** How many characters in, a step is in its middle. */
export function middleOf({ says }: PlayStep): number {
  return Math.floor(says.length / 2);
}
