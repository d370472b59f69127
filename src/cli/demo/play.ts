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
    says: "Good evening. I am a script, not an AI. While I speak somebody cuts the network, and you will not lose a word of it. Now two commands and an edit at once.",
    deeds: [
      { label: "quick", seconds: 0 },
      { label: "slow", seconds: CUT_OFF_SECONDS },
    ],
    edits: true,
  },
  {
    says: "One of them was cut off. Nobody knows how far it got, so I am told unknown, and nobody runs it twice. While I say so, the client is killed again.",
    deeds: [{ label: "build", seconds: 1.5 }],
    edits: false,
  },
  {
    says: "That one ended while there was no server to tell, and it was told all the same. Now the server dies while I speak, so I have to say this once more.",
    deeds: [{ label: "upload", seconds: 1 }],
    edits: false,
  },
  {
    says: "That one ended in a network that had gone silent. To finish, everything dies at once: network, client and server. And here I am, with the last word.",
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
