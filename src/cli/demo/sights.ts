/**
 * What is seen of the story, in words.
 */
import type { Board } from "./board.ts";
import { commandOf, LETTER_FILE, PLAY } from "./play.ts";
import type { Sight } from "./story.ts";

export function tellSight(sight: Sight, board: Board): void {
  const { dim } = board.style;
  switch (sight.kind) {
    case "piece":
      board.piece(sight.text);
      break;
    case "runs":
      board.say(
        "client",
        `runs ${sight.tool === "shell_stream" ? "shell" : sight.tool}: ${sight.about}`,
        dim,
      );
      break;
    case "tool_over":
      tellOutcome(sight, board);
      break;
    case "goes_on":
      board.say("client", `has events on disk up to ${sight.cursor}`, dim);
      break;
    case "caught_up":
      board.say(
        "client",
        `was sent events ${sight.first} to ${sight.last} again, and continues with the next`,
        dim,
      );
      break;
    case "state":
      if (sight.state !== "ended") board.say("client", stateText(sight), dim);
      break;
  }
}

function stateText({ state, why }: Extract<Sight, { kind: "state" }>): string {
  return why === "" || state === "live" ? state : `${state}: ${why}`;
}

function tellOutcome({ tool, outcome, about }: Extract<Sight, { kind: "tool_over" }>, board: Board): void {
  const { green, yellow, red } = board.style;
  const paint = outcome === "done" ? green : outcome === "unknown" ? yellow : red;
  const deed = PLAY.flatMap(({ deeds }) => deeds).find((one) => commandOf(one) === about);
  const name = tool === "edit" ? `the edit of ${LETTER_FILE}` : `"${deed?.label ?? tool}"`;
  board.say("agent", `is told that ${name} is ${outcome}`, paint);
}
