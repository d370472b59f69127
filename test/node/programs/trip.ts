/**
 * The program of the README, with a tool that leaves a trace and can be held: `serve`, `connect`, one tool, one question, its parts.
 *
 * With HOLDFAST_URL the server is elsewhere; with `server` as its argument it is only a server. Says `[in the tool]` when the tool has taken effect. A held
 * tool ends at the first byte on standard input.
 */
import { appendFileSync } from "node:fs";
import { once } from "node:events";
import { z } from "zod";
import { connect, serve, tool } from "../../../src/node/index.ts";

const QUESTION = 'call weather {"city":"Oslo"}\nsay the result\npace 20 ms\ncount to 30';
const { HOLDFAST_URL: elsewhere, EFFECTS = "effects", HOLDS } = process.env;
const app =
  elsewhere === undefined
    ? await serve({ data: "./data", apiKey: process.env["SERVER_API_KEY"] })
    : undefined;
if (process.argv[2] === "server") {
  process.stdout.write("[serving]\n");
} else {
  const holdfast = await connect(app?.url, {
    apiKey: app?.apiKey,
    tools: {
      weather: tool("Weather in a city", { city: z.string() }, async ({ city }) => {
        appendFileSync(EFFECTS, `${city}\n`);
        process.stdout.write("[in the tool]\n");
        if (HOLDS === "tool") await once(process.stdin, "data");
        return `sunny in ${city}`;
      }),
    },
  });
  const turn = await holdfast.conversation("trip").send(QUESTION);
  let shown = "";
  for await (const part of turn) {
    if (part.type === "text") shown += part.text;
    if (part.type === "retract") shown = part.kept;
    if (part.type === "text") process.stdout.write(part.text);
  }
  const { reason, text } = await turn.ended;
  const { turns } = await holdfast.conversation("trip").full();
  process.stdout.write(`\n${JSON.stringify({ reason, text, shown, turns: turns.length })}\n`);
  await holdfast.close();
  await app?.close();
  process.stdin.destroy();
}
