/**
 * The part of the rehearsal model's language that the flows use, for a provider that counts: the same prompt has the same effect at both.
 *
 * `call <tool> <json>` (lines in a row are calls of one step), `say <text>`, `count to <n> every <ms> ms`. What follows calls is the next step.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Act, Fields } from "../agent/models/providers/server.ts";
import { chunkOf, type Said, type ScriptedCall } from "../agent/models/providers/formats.ts";
import { type Script, textOf } from "../agent/models/providers/scripted.ts";
import { fieldsOf } from "../agent/models/providers/server.ts";

export const followScript: Script = (messages) => {
  const asking = messages.findLastIndex((message) => message["role"] === "user");
  const step = messages.slice(asking + 1).filter(({ role }) => role === "assistant").length;
  const lines = stepsOf(textOf(messages[asking]))[step] ?? ["say Nothing more is in the script."];
  const counted = /^count to (?<to>\d+) every (?<ms>\d+) ms$/.exec(lines[0] ?? "")?.groups;
  return counted === undefined ? saidBy(lines) : counting(Number(counted["to"]), Number(counted["ms"]));
};

function stepsOf(script: string): readonly (readonly string[])[] {
  const steps: string[][] = [];
  let wasCall = false;
  for (const line of script.split("\n")) {
    const isCall = line.startsWith("call ");
    if (steps.length === 0 || (wasCall && !isCall)) steps.push([]);
    steps.at(-1)?.push(line);
    wasCall = isCall;
  }
  return steps;
}

function saidBy(lines: readonly string[]): Said {
  const calls = lines.flatMap((line): readonly ScriptedCall[] => {
    const called = /^call (?<name>\w+) (?<json>.*)$/.exec(line)?.groups;
    return called === undefined ? [] : [{ name: called["name"] ?? "", args: argumentsOf(called["json"]) }];
  });
  const text = lines
    .flatMap((line) => (line.startsWith("say ") ? [line.slice("say ".length)] : []))
    .join(" ");
  return { ...(text === "" ? {} : { text }), calls };
}

function argumentsOf(json = "{}"): Fields {
  return fieldsOf(JSON.parse(json));
}

function counting(to: number, everyMs: number): Act {
  return async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (chunk: object): void => void response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    for (let at = 1; at <= to && !response.destroyed; at++) {
      send(chunkOf({ content: `${at} ` }));
      await sleep(everyMs);
    }
    send(chunkOf({}, "stop"));
    response.end("data: [DONE]\n\n");
  };
}
