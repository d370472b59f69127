/**
 * How options, flags, variables and files are checked: what is wrong is one sentence, and no secret is in it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as z from "../../src/protocol/rules.ts";
import {
  asFlag,
  callable,
  checked,
  fields,
  having,
  httpUrl,
  inFile,
  list,
  named,
  oneOf,
  secretThat,
  text,
  textThat,
  timerMs,
  variable,
  whole,
  wholeText,
  yesOrNo,
  yesOrNoText,
} from "../../src/protocol/checked.ts";

const SCHEMA = fields(
  {
    name: z.optional(text()),
    port: z.optional(whole(0, 65_535)),
    isOn: z.optional(yesOrNo()),
    level: z.optional(oneOf(["low", "high"])),
    waitMs: z.optional(timerMs()),
    url: z.optional(httpUrl(": use apiKey")),
    tls: z.optional(fields({ cert: text("must be a path"), key: text("must be a path") })),
    hosts: z.optional(list(text())),
    byName: z.optional(
      named(
        whole(1),
        textThat((name) => name.includes("/"), 'must be "a/b"'),
      ),
    ),
    token: z.optional(secretThat((said) => said.length > 3, "must be longer")),
    onBug: z.optional(callable<() => void>()),
    tools: z.optional(having<object>(["run", "stop"])),
  },
  (name) => (name === "password" ? "does not belong here" : undefined),
);

test("what is wrong is named by its field, with what it must be and what it is", () => {
  const wrong: readonly (readonly [unknown, string])[] = [
    [5, "the options must be an object, not 5"],
    [{ name: " " }, 'name must be a text that is not empty, not " "'],
    [{ port: "80" }, 'port must be a whole number from 0 to 65535, not "80"'],
    [{ port: 1.5 }, "port must be a whole number from 0 to 65535, not 1.5"],
    [{ isOn: null }, "isOn must be true or false, not null"],
    [{ level: "mid" }, 'level must be one of low, high, not "mid"'],
    [{ waitMs: 2 ** 31 }, "waitMs must be a number of milliseconds, from 1 to 2147483647, not 2147483648"],
    [{ url: "ftp://x" }, 'url must begin with http:// or https://, not "ftp://x"'],
    [{ tls: { cert: "c" } }, "tls.key is missing: it must be a path"],
    [{ tls: { cert: "c", key: "k", ca: "a" } }, "tls.ca is not known; known are cert, key"],
    [{ tls: { crt: "c" } }, 'tls.crt is not known; did you mean "cert"?'],
    [{ hosts: ["a", {}] }, "hosts[1] must be a text that is not empty, not an object"],
    [{ byName: { a: 1 } }, 'byName.a must be "a/b"'],
    [{ byName: { "a/b": 0 } }, "byName.a/b must be a whole number, at least 1, not 0"],
    [{ onBug: [] }, "onBug must be a function, not an empty list"],
    [{ tools: { run: () => 1 } }, "tools must have a function stop"],
    [{ prot: 1 }, 'prot is not known; did you mean "port"?'],
    [{ password: "hunter2" }, "password does not belong here"],
    [
      { name: "x".repeat(100), port: "x".repeat(100) },
      `port must be a whole number from 0 to 65535, not "${"x".repeat(79)}…`,
    ],
    [
      { name: "x", port: "x".repeat(78) + "🙂" },
      `port must be a whole number from 0 to 65535, not "${"x".repeat(78)}…`,
    ],
  ];
  for (const [value, message] of wrong) {
    assert.throws(() => checked(SCHEMA, value), { name: "HoldfastError", code: "invalid_argument", message });
  }
  assert.throws(() => checked(SCHEMA, [], inFile("/h.json")), {
    message: "/h.json: the whole file must be an object, not an empty list",
  });
  assert.throws(() => checked(SCHEMA, { port: -1 }, inFile("/h.json")), {
    message: /^\/h\.json: "port" must/,
  });
});

test("E4: what may be a secret is not repeated", () => {
  for (const value of [
    { token: "abc" },
    { token: 5 },
    { url: "http://me:hunter2@host" },
    { url: "ftp://me:hunter2@host" },
  ]) {
    assert.throws(() => checked(SCHEMA, value), { message: /^(?!.*(?:abc|5|hunter2)).*must/ });
  }
});

test("flags and variables are texts; an empty variable is not set", () => {
  const FLAGS = z.object({ openStreams: z.optional(wholeText(1, 9)), allow: z.optional(list(oneOf(["a"]))) });
  assert.deepEqual(checked(FLAGS, { openStreams: "7", other: 1 }, asFlag), { openStreams: 7 });
  for (const [flags, message] of [
    [{ openStreams: "ten" }, '--open-streams must be a whole number from 1 to 9, not "ten"'],
    [{ openStreams: "10" }, "--open-streams must be a whole number from 1 to 9, not 10"],
    [{ openStreams: "1e0" }, '--open-streams must be a whole number from 1 to 9, not "1e0"'],
    [{ allow: ["a", "b"] }, '--allow must be one of a, not "b"'],
  ] as const) {
    assert.throws(() => checked(FLAGS, flags, asFlag), { message });
  }
  const VARIABLES = z.object({ A_SWITCH: variable(yesOrNoText()), A_COUNT: variable(wholeText(0)) });
  assert.deepEqual(checked(VARIABLES, { A_SWITCH: "Off", A_COUNT: "0" }), { A_SWITCH: false, A_COUNT: 0 });
  assert.equal(checked(VARIABLES, { A_SWITCH: "", A_COUNT: "" }).A_SWITCH, undefined);
  assert.throws(() => checked(VARIABLES, { A_SWITCH: "2" }), {
    message: 'A_SWITCH must be 1 or 0 (or true, false, on, off), not "2"',
  });
});
