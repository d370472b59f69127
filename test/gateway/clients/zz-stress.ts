import { test } from "node:test";
import assert from "node:assert/strict";
import OpenAI from "openai";
import { bySteps, openaiProvider } from "../scripted-provider.ts";
import { NOTE, noteArgs, Notes } from "./note-tool.ts";
import { LOCAL, serveGateway } from "./served-gateway.ts";
test("stress", async (t) => {
  const plan: Record<string, any> = {};
  for (let i = 0; i < 200; i++)
    plan[`go ${i}`] = [
      {
        thinking: "hm",
        text: "a",
        calls: [
          { name: "note", args: { file: `f${i}`, text: "one" } },
          { name: "note", args: { file: `g${i}`, text: "one" } },
        ],
      },
      { calls: [{ name: "note", args: { file: `f${i}`, text: "two" } }] },
      { text: "done" },
    ];
  plan["thanks"] = [{ text: "welcome" }];
  const provider = await openaiProvider(t, bySteps(plan));
  const gw = await serveGateway(t, { provider });
  const openai = new OpenAI({ baseURL: gw.baseURL, apiKey: gw.apiKey, maxRetries: 0 });
  const notes = new Notes(gw.workspace);
  const tools = [
    {
      type: "function" as const,
      function: {
        ...NOTE,
        parse: (s: string) => noteArgs.parse(JSON.parse(s)),
        function: (a: any) => notes.add(a),
      },
    },
  ];
  let n = 0;
  let bad = -1;
  const errs: unknown[] = [];
  const worker = async () => {
    while (n < 200) {
      const i = n++;
      let r: any;
      let r2: any;
      try {
        r = openai.chat.completions.runTools({
          model: LOCAL,
          messages: [{ role: "user", content: `go ${i}` }],
          tools,
          stream: true,
        });
        assert.equal(await r.finalContent(), "done");
        r2 = openai.chat.completions.runTools({
          model: LOCAL,
          messages: [...r.messages, { role: "user", content: "thanks" }],
          tools,
          stream: i % 2 === 0,
        } as any);
        assert.equal(await r2.finalContent(), "welcome");
        assert.deepEqual(notes.linesOf(`f${i}`), ["one", "two"]);
      } catch (e) {
        if (errs.length === 0) console.log(JSON.stringify(r.messages), JSON.stringify(r2?.messages));
        errs.push(`${i} ${String(e).slice(0, 300)}`);
        if (errs.length === 1) {
          bad = i;
        }
      }
    }
  };
  const b = performance.now();
  await Promise.all(Array.from({ length: 16 }, worker));
  console.log(
    "ms",
    performance.now() - b,
    "errs",
    errs.length,
    errs.slice(0, 3),
    await gw.answers(),
    provider.calls.length,
  );
  for (const c of provider.calls)
    if (c.text.includes(`go ${bad}"`)) console.log(JSON.stringify(c.body.messages));
});
