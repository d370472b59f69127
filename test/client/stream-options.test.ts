/**
 * The options of a stream: a part of them is enough, and a wrong one is refused by its name, in every client.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { settle as settleInBrowser } from "../../src/client/browser/options.ts";
import { STREAM_DEFAULTS, type StreamSettings, toolRunner, type Tools } from "../../src/client/index.ts";
import { streamPlans } from "../../src/client/stream-options.ts";

function completeStreamOptions(given?: StreamSettings) {
  return streamPlans(given, unexpected)().options;
}

function unexpected(bug: unknown): void {
  assert.fail(String(bug));
}

test("what is left out, at any depth, is as the defaults say", () => {
  const { retry, stall } = STREAM_DEFAULTS;
  assert.deepEqual(completeStreamOptions(), STREAM_DEFAULTS);
  const expected: readonly [StreamSettings, object][] = [
    [{ retry: { baseMs: 7 } }, { retry: { ...retry, baseMs: 7 } }],
    [{ retry: { budget: { burst: 3 } } }, { retry: { ...retry, budget: { ...retry.budget, burst: 3 } } }],
    [{ stall: { progressMs: 9 } }, { stall: { ...stall, progressMs: 9 } }],
    [{ attachTimeoutMs: 8, retry: {} }, { attachTimeoutMs: 8 }],
    [{ retry: undefined, stall: { unansweredMs: undefined }, reliable: undefined }, {}],
  ];
  for (const [given, change] of expected) {
    assert.deepEqual(completeStreamOptions(given), { ...STREAM_DEFAULTS, ...change });
  }
});

/** As a program in JavaScript may say it. */
const WRONG: readonly [object, RegExp][] = [
  [{ retry: { baseMs: -1 } }, /^stream\.retry\.baseMs must be a number, at least 0, not -1$/],
  [{ retry: { capMs: 0 } }, /^stream\.retry\.capMs must be a number of milliseconds, from 1/],
  [{ retry: { giveUpAfterMs: "soon" } }, /^stream\.retry\.giveUpAfterMs must be a number/],
  [{ retry: { budget: { burst: 0 } } }, /^stream\.retry\.budget\.burst must be a number, at least 1, not 0$/],
  [{ retry: { budget: { refillMs: Infinity } } }, /^stream\.retry\.budget\.refillMs must be/],
  [{ retry: { budget: 5 } }, /^stream\.retry\.budget must be an object, not 5$/],
  [{ retry: null }, /^stream\.retry must be an object, not null$/],
  [{ retry: { base: 5 } }, /^stream\.retry\.base is not known; did you mean "baseMs"\?$/],
  [{ stall: { heartbeatsMissedMax: NaN } }, /^stream\.stall\.heartbeatsMissedMax must be/],
  [{ stall: { progressMs: 0 } }, /^stream\.stall\.progressMs must be/],
  [{ stall: { unansweredMs: [] } }, /^stream\.stall\.unansweredMs must be/],
  [{ stall: { toString: 1 } }, /^stream\.stall\.toString is not known; known are heartbeatsMissedMax, /],
  [
    { heartbeatIntervalMs: 2 ** 31 },
    /^stream\.heartbeatIntervalMs must be .* to 2147483647, not 2147483648$/,
  ],
  [{ attachTimeoutMs: 0 }, /^stream\.attachTimeoutMs must be/],
  [{ retryLookbackWindowMs: -1 }, /^stream\.retryLookbackWindowMs must be/],
  [{ reliable: "no" }, /^stream\.reliable must be true or false, not "no"$/],
  [{ persistence: "no" }, /^stream\.persistence must be true or false, not "no"$/],
  [{ allowDegraded: 0 }, /^stream\.allowDegraded must be true or false, not 0$/],
  [{ retries: 5 }, /^stream\.retries is not known; known are retry, stall, /],
  [[], /^stream must be an object, not an empty list$/],
];

test("a wrong option of a stream is refused by its name, in browsers too", () => {
  for (const [stream, message] of WRONG) {
    assert.throws(() => completeStreamOptions(stream), { code: "invalid_argument", message });
    assert.throws(() => settleInBrowser({ stream }, "http://page"), { code: "invalid_argument", message });
  }
});

test("a browser client merges and refuses as one in Node does", () => {
  const given = { stream: { retry: { capMs: 9 }, reliable: false }, allowDegraded: false };
  const { retry } = STREAM_DEFAULTS;
  const changed = { retry: { ...retry, capMs: 9 }, reliable: false, allowDegraded: false };
  const { options } = streamPlans(settleInBrowser(given, "http://page").stream, unexpected)();
  assert.deepEqual(options, { ...STREAM_DEFAULTS, ...changed });
  const wrong: readonly [object, RegExp][] = [
    [{ url: "ftp://x" }, /url must begin with http/],
    [{ apiKey: 5 }, /apiKey must be one word/],
    [{ homeKey: "k".repeat(32) }, /homeKey must be a Uint8Array of 32 bytes/],
    [{ database: 5 }, /database must be a text/],
    [{ persistence: "yes" }, /persistence must be true or false/],
    [{ shareConnection: 1 }, /shareConnection must be true or false/],
    [{ retryLookbackWindowMs: 1.5 }, /retryLookbackWindowMs must be a whole number/],
    [{ resumesMax: 0 }, /resumesMax must be a whole number, at least 1/],
    [{ tools: {} }, /tools must be made by toolRunner/],
    [{ blobs: {} }, /blobs must have a function put/],
    [{ connect: "http2" }, /connect must be a function/],
    [{ onBug: 1 }, /onBug must be a function, not 1/],
    [{ reliabel: true }, /^reliabel is not known; did you mean "reliable"\?$/],
  ];
  for (const [options, message] of wrong) {
    assert.throws(() => settleInBrowser(options, "http://page"), { code: "invalid_argument", message });
  }
});

test("a function is asked for each new stream; what is wrong in it is reported, and the last good settings stay", () => {
  const bugs: unknown[] = [];
  const answers: (() => StreamSettings)[] = [
    () => ({ reliable: false }),
    () => ({ persistence: false, retryLookbackWindowMs: 7 }),
    () => ({ attachTimeoutMs: -1 }),
    () => {
      throw new Error("no file");
    },
    () => ({}),
  ];
  const plan = streamPlans(
    () => answers.shift()?.() ?? {},
    (bug) => bugs.push(bug),
  );
  const seen = Array.from({ length: 4 }, () => {
    const { options, persistence } = plan();
    return [options.reliable, persistence, options.retryLookbackWindowMs];
  });
  const windowMs = STREAM_DEFAULTS.retryLookbackWindowMs;
  const changed = [true, false, 7];
  assert.deepEqual(seen, [changed, changed, changed, [true, true, windowMs]]);
  assert.match(String(bugs), /attachTimeoutMs must be.*no file/);
  assert.throws(() => streamPlans(() => ({ attachTimeoutMs: -1 }), unexpected), /attachTimeoutMs must be/);
});

test("a client's own switches win over its function, in browsers too", () => {
  const { stream, persistence } = settleInBrowser(
    { stream: () => ({ reliable: true, persistence: true }), reliable: false },
    "http://page",
  );
  const plan = streamPlans(stream, unexpected)();
  assert.deepEqual([plan.options.reliable, plan.persistence, persistence], [false, true, true]);
  assert.equal(settleInBrowser({ stream: { persistence: false } }, "http://page").persistence, false);
  const off = settleInBrowser({ stream: () => ({}), persistence: false }, "http://page");
  assert.equal(off.persistence, false);
});

test("a page's tools come with what runs them", () => {
  const policy = { repeatable: false, needsApproval: false };
  const tools: Tools = {
    policy: () => policy,
    approve: async () => ({ allowed: true, untilMs: 0 }),
    run: async () => new Uint8Array(),
    stopLeftover: () => undefined,
  };
  const options = { url: "http://127.0.0.1" };
  assert.ok(settleInBrowser({ ...options, tools: toolRunner(tools) }, undefined));
  // What a page in JavaScript may say.
  const bare: object = { ...options, tools };
  assert.throws(() => settleInBrowser(bare, undefined), {
    code: "invalid_argument",
    message: /tools must be made by toolRunner\(tools\)/,
  });
});
