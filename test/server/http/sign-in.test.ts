import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { SignIn } from "../../../src/server/http/sign-in.ts";

const authenticate = async (apiKey: string | undefined): Promise<{ principal: string }> => {
  if (apiKey?.startsWith("good") !== true) throw new HoldfastError("unauthenticated", "no");
  return { principal: "alice" };
};

function signIn(): { asked: SignIn; clock: { nowMs: number } } {
  const clock = { nowMs: 0 };
  return { asked: new SignIn(authenticate, { burst: 3, refillMs: 1_000 }, () => clock.nowMs), clock };
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
  assert.equal(await asked.principalOf("Bearer good", "1"), "alice");
  assert.equal(await asked.principalOf("bearer  good ", "1"), "alice");
  const wrong = [undefined, "", "good", "Basic good", "Bearer", "Bearer ", "Bearer good more", "Bearer gööd"];
  for (const [at, header] of wrong.entries()) {
    assert.equal(await codeOf(asked.principalOf(header, `10.0.0.${at}`)), "unauthenticated", header);
  }
});

test("E1: failed sign-ins of one address are limited, and come back with time", async () => {
  const { asked, clock } = signIn();
  for (let attempt = 0; attempt < 3; attempt++) {
    assert.equal(await codeOf(asked.principalOf("Bearer bad", "10.0.0.1")), "unauthenticated");
  }
  const refused = await asked.principalOf("Bearer good-but-new", "10.0.0.1").catch((error: unknown) => error);
  assert.ok(refused instanceof HoldfastError && refused.code === "overloaded");
  assert.ok((refused.retryAfterMs ?? 0) > 0, "it says how long to wait");
  assert.equal(await codeOf(asked.principalOf("Bearer good", "10.0.0.2")), "in", "others are not touched");
  clock.nowMs += 1_000;
  assert.equal(await codeOf(asked.principalOf("Bearer good-but-new", "10.0.0.1")), "in");
  assert.equal(asked.failureCount, 4);
});

test("a token that was good before is let in beside a program that fails all the time", async () => {
  const { asked } = signIn();
  assert.equal(await codeOf(asked.principalOf("Bearer good", "127.0.0.1")), "in");
  for (let attempt = 0; attempt < 5; attempt++) await codeOf(asked.principalOf("Bearer bad", "127.0.0.1"));
  assert.equal(await codeOf(asked.principalOf("Bearer bad", "127.0.0.1")), "overloaded");
  assert.equal(await codeOf(asked.principalOf("Bearer good", "127.0.0.1")), "in");
});

test("E1: the addresses of one IPv6 network count together, and IPv4 in IPv6 is IPv4", async () => {
  const { asked } = signIn();
  for (const address of ["2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::ffff"]) {
    assert.equal(await codeOf(asked.principalOf("Bearer bad", address)), "unauthenticated");
  }
  assert.equal(await codeOf(asked.principalOf("Bearer bad", "2001:db8:1:2::9")), "overloaded");
  assert.equal(await codeOf(asked.principalOf("Bearer bad", "2001:db8:1:3::9")), "unauthenticated");
  for (const address of ["::ffff:10.0.0.1", "10.0.0.1", "::FFFF:10.0.0.1"]) {
    assert.equal(await codeOf(asked.principalOf("Bearer bad", address)), "unauthenticated");
  }
  assert.equal(await codeOf(asked.principalOf("Bearer bad", "10.0.0.1")), "overloaded");
});

test("F2: the table of addresses is bounded, and forgets the oldest", async () => {
  const { asked } = signIn();
  for (let attempt = 0; attempt < 3; attempt++) await codeOf(asked.principalOf("Bearer bad", "first"));
  for (let at = 0; at < 10_000; at++) await codeOf(asked.principalOf("Bearer bad", `other ${at}`));
  assert.equal(await codeOf(asked.principalOf("Bearer bad", "first")), "unauthenticated");
});

test("what is no verdict on the token is passed on and not counted", async () => {
  const asked = new SignIn(() => Promise.reject(new HoldfastError("unavailable", "the store is down")));
  assert.equal(await codeOf(asked.principalOf("Bearer good", "1")), "unavailable");
  assert.equal(asked.failureCount, 0);
});
