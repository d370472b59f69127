import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { bearerTokens } from "../../../src/server/http/credentials.ts";
import { createSignIn, type SignIn } from "../../../src/server/http/sign-in.ts";

const authenticate = async (apiKey: string | undefined): Promise<{ principal: string }> => {
  if (apiKey?.startsWith("good") !== true) throw new HoldfastError("unauthenticated", "no");
  return { principal: "alice" };
};

function signIn(): { asked: SignIn; clock: { nowMs: number } } {
  const clock = { nowMs: 0 };
  return { asked: createSignIn(authenticate, { burst: 3, refillMs: 1_000 }, () => clock.nowMs), clock };
}

async function principalOf(
  asked: SignIn,
  authorization: string | undefined,
  address: string,
): Promise<string> {
  return (await asked.enter(bearerTokens(authorization), address)).principal;
}

async function codeOf(attempt: Promise<unknown>): Promise<string> {
  try {
    await attempt;
    return "in";
  } catch (error) {
    assert.ok(error instanceof HoldfastError);
    return error.code;
  }
}

test("E7: only a Bearer token signs in", async () => {
  const { asked } = signIn();
  assert.equal(await principalOf(asked, "Bearer good", "1"), "alice");
  assert.equal(await principalOf(asked, "bearer  good ", "1"), "alice");
  const wrong = [undefined, "", "good", "Basic good", "Bearer", "Bearer ", "Bearer good more", "Bearer gööd"];
  for (const [at, header] of wrong.entries()) {
    assert.equal(await codeOf(principalOf(asked, header, `10.0.0.${at}`)), "unauthenticated", header);
  }
});

test("E1: failed sign-ins of one address are limited, and come back with time", async () => {
  const { asked, clock } = signIn();
  for (let attempt = 0; attempt < 3; attempt++) {
    assert.equal(await codeOf(principalOf(asked, "Bearer bad", "10.0.0.1")), "unauthenticated");
  }
  const refused = await principalOf(asked, "Bearer good-but-new", "10.0.0.1").catch(
    (error: unknown) => error,
  );
  assert.ok(refused instanceof HoldfastError && refused.code === "overloaded");
  assert.ok((refused.retryAfterMs ?? 0) > 0, "it says how long to wait");
  assert.equal(await codeOf(principalOf(asked, "Bearer good", "10.0.0.2")), "in", "others are not touched");
  clock.nowMs += 1_000;
  assert.equal(await codeOf(principalOf(asked, "Bearer good-but-new", "10.0.0.1")), "in");
  assert.equal(asked.failureCount, 4);
});

test("a token that was good before is let in beside a program that fails all the time", async () => {
  const { asked } = signIn();
  assert.equal(await codeOf(principalOf(asked, "Bearer good", "127.0.0.1")), "in");
  for (let attempt = 0; attempt < 5; attempt++) await codeOf(principalOf(asked, "Bearer bad", "127.0.0.1"));
  assert.equal(await codeOf(principalOf(asked, "Bearer bad", "127.0.0.1")), "overloaded");
  assert.equal(await codeOf(principalOf(asked, "Bearer good", "127.0.0.1")), "in");
});

test("E1: the addresses of one IPv6 network count together, and IPv4 in IPv6 is IPv4", async () => {
  const { asked } = signIn();
  for (const address of ["2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::ffff"]) {
    assert.equal(await codeOf(principalOf(asked, "Bearer bad", address)), "unauthenticated");
  }
  assert.equal(await codeOf(principalOf(asked, "Bearer bad", "2001:db8:1:2::9")), "overloaded");
  assert.equal(await codeOf(principalOf(asked, "Bearer bad", "2001:db8:1:3::9")), "unauthenticated");
  for (const address of ["::ffff:10.0.0.1", "10.0.0.1", "::FFFF:10.0.0.1"]) {
    assert.equal(await codeOf(principalOf(asked, "Bearer bad", address)), "unauthenticated");
  }
  assert.equal(await codeOf(principalOf(asked, "Bearer bad", "10.0.0.1")), "overloaded");
});

test("F2: the table of addresses is bounded, and forgets the oldest", async () => {
  const { asked } = signIn();
  for (let attempt = 0; attempt < 3; attempt++) await codeOf(principalOf(asked, "Bearer bad", "first"));
  for (let at = 0; at < 10_000; at++) await codeOf(principalOf(asked, "Bearer bad", `other ${at}`));
  assert.equal(await codeOf(principalOf(asked, "Bearer bad", "first")), "unauthenticated");
});

test("what is no verdict on the token is passed on and not counted", async () => {
  const asked = createSignIn(() => Promise.reject(new HoldfastError("unavailable", "the store is down")));
  assert.equal(await codeOf(principalOf(asked, "Bearer good", "1")), "unavailable");
  assert.equal(asked.failureCount, 0);
});

/** Looks at tokens only when it is let, so that all are under way at once. */
function heldSignIn(): { asked: SignIn; clock: { nowMs: number }; look: () => void; looking: () => number } {
  const clock = { nowMs: 0 };
  let held: (() => void)[] = [];
  const slow = async (apiKey: string | undefined): Promise<{ principal: string }> => {
    await new Promise<void>((resolve) => void held.push(resolve));
    return authenticate(apiKey);
  };
  const look = (): void => {
    const now = held;
    held = [];
    for (const go of now) go();
  };
  return {
    asked: createSignIn(slow, { burst: 3, refillMs: 1_000 }, () => clock.nowMs),
    clock,
    look,
    looking: () => held.length,
  };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("E1: guesses at the same time are limited as guesses in a row are, and none makes the wait longer", async () => {
  const { asked, clock, look, looking } = heldSignIn();
  const guesses = Array.from({ length: 100 }, (_, at) => codeOf(principalOf(asked, `Bearer bad${at}`, "1")));
  await turn();
  assert.equal(looking(), 3, "no more are looked at than may fail");
  look();
  const codes = await Promise.all(guesses);
  assert.equal(codes.filter((code) => code === "unauthenticated").length, 3);
  assert.equal(codes.filter((code) => code === "overloaded").length, 97);
  const refused = await principalOf(asked, "Bearer good-new", "1").catch((error: unknown) => error);
  assert.ok(refused instanceof HoldfastError);
  assert.deepEqual([refused.code, refused.retryAfterMs], ["overloaded", 1_000]);
  clock.nowMs += 1_000;
  const late = codeOf(principalOf(asked, "Bearer good-new", "1"));
  await turn();
  look();
  assert.equal(await late, "in");
});

test("E1: a refusal owes nothing, however many there were", async () => {
  const { asked, clock } = signIn();
  for (let attempt = 0; attempt < 50; attempt++) await codeOf(principalOf(asked, "Bearer bad", "1"));
  clock.nowMs += 1_000;
  assert.equal(await codeOf(principalOf(asked, "Bearer good-new", "1")), "in");
  assert.equal(await codeOf(principalOf(asked, "Bearer good-newer", "1")), "in", "a good one costs nothing");
});

test("many clients of one address that sign in for the first time at once are all let in", async () => {
  const { asked, look, looking } = heldSignIn();
  const arrivals = Array.from({ length: 20 }, (_, at) => codeOf(principalOf(asked, `Bearer good${at}`, "1")));
  for (let left = 20; left > 0; left -= 3) {
    await turn();
    assert.equal(looking(), Math.min(3, left));
    look();
  }
  assert.deepEqual(new Set(await Promise.all(arrivals)), new Set(["in"]));
});

test("E1: a token that was good and is revoked counts like any other", async () => {
  const state = { isRevoked: false };
  const revocable = async (apiKey: string | undefined): Promise<{ principal: string }> => {
    if (state.isRevoked) throw new HoldfastError("unauthenticated", "no");
    return authenticate(apiKey);
  };
  const asked = createSignIn(revocable, { burst: 2, refillMs: 1_000 }, () => 0);
  assert.equal(await codeOf(principalOf(asked, "Bearer good", "1")), "in");
  state.isRevoked = true;
  const codes = [];
  for (let attempt = 0; attempt < 3; attempt++) {
    codes.push(await codeOf(principalOf(asked, "Bearer good", "1")));
  }
  assert.deepEqual(codes, ["unauthenticated", "unauthenticated", "overloaded"]);
});

test("what is no verdict gives its try back", async () => {
  const state = { isDown: true };
  const asked = createSignIn(
    (apiKey) =>
      state.isDown
        ? Promise.reject(new HoldfastError("unavailable", "the store is down"))
        : authenticate(apiKey),
    { burst: 2, refillMs: 1_000 },
    () => 0,
  );
  for (let attempt = 0; attempt < 5; attempt++) {
    assert.equal(await codeOf(principalOf(asked, "Bearer good", "1")), "unavailable");
  }
  state.isDown = false;
  assert.equal(await codeOf(principalOf(asked, "Bearer good", "1")), "in");
});

test("E1: a request that brings several tokens fails once, and not at all when one is good", async () => {
  const { asked } = signIn();
  const enter = (...tokens: readonly string[]): Promise<string> => codeOf(asked.enter(tokens, "1"));
  for (let attempt = 0; attempt < 5; attempt++) assert.equal(await enter("foreign", "good"), "in");
  assert.equal((await asked.enter(["good-first", "good-second"], "1")).token, "good-first");
  assert.equal(asked.failureCount, 0);
  for (let attempt = 0; attempt < 3; attempt++) assert.equal(await enter("bad", "worse"), "unauthenticated");
  assert.equal(await enter("bad", "worse"), "overloaded");
  assert.equal(await enter("foreign", "good"), "in", "it was good before");
});
