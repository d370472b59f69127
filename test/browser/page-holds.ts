/**
 * Every point of "it holds", each with the server killed in that moment: a reload, a closed tab, two tabs, a click that takes over, a network that is away, a
 * restart in order, a message that is sent to a dead server, an approval that waits.
 *
 * The provider counts up to the place of the kill and no further, so each kill hits the middle of an answer. Afterwards every text that a tab ever showed as
 * the answer is compared, character by character, with what the server's log has, which is read anew; and that with the script.
 */
import assert from "node:assert/strict";
import type { BrowserContext } from "playwright-core";
import type { HeldProvider } from "./held-provider.ts";
import { counted, type PageServer, Tab } from "./page-rig.ts";

export interface Moment {
  readonly context: BrowserContext;
  readonly server: PageServer;
  readonly provider: HeldProvider;
  /** Where the answer is when the blow falls; it ends at `to`. */
  readonly at: number;
  readonly to: number;
}

type Point = (moment: Moment, tab: Tab, question: string) => Promise<readonly Tab[]>;

const POINTS: Readonly<Record<string, Point>> = {
  "a server that is killed": async ({ server }, tab) => {
    await server.kill();
    await server.startAgain();
    return [tab];
  },
  "a reload": async ({ server }, tab) => {
    // Which of the two comes first is the machine's to say: a page of a dead server does not load.
    await Promise.all([server.kill(), tab.page.reload().catch(() => undefined)]);
    await server.startAgain();
    await tab.page.goto(server.url);
    return [tab];
  },
  "a tab that is closed and opened again": async ({ server, context }, tab) => {
    await Promise.all([server.kill(), tab.page.close()]);
    await server.startAgain();
    return [await Tab.open(context, server.url)];
  },
  "a second tab that follows, and takes over by a click": async (moment, tab) => {
    const second = await follower(moment);
    await second.is("another tab writes");
    await Promise.all([moment.server.kill(), second.press("Write here")]);
    await moment.server.startAgain();
    await tab.is("another tab writes");
    return [tab, second];
  },
  "a network that is away": async ({ server, context }, tab) => {
    await Promise.all([server.kill(), context.setOffline(true)]);
    await tab.is("reconnecting");
    await server.startAgain();
    await context.setOffline(false);
    return [tab];
  },
  "a restart in order": async ({ server }, tab) => {
    await server.killWhileItStops();
    await server.startAgain();
    return [tab];
  },
};

async function follower({ context, server, at }: Moment): Promise<Tab> {
  const second = await Tab.open(context, server.url);
  await second.answers((answer) => answer === counted(at), "the other tab follows");
  return second;
}

export const POINT_NAMES: readonly string[] = Object.keys(POINTS);

/** One point; rejects when it does not hold. The context has one tab, signed in. */
export async function holds(name: string, moment: Moment, tab: Tab): Promise<Tab> {
  const { provider, server, at, to } = moment;
  const question = `count to ${to}`;
  await tab.begin();
  provider.allow(at);
  await tab.say(question);
  await tab.answers((answer) => answer === counted(at), "the answer begins");
  const stream = await tab.stream();
  const tabs = (await POINTS[name]?.(moment, tab, question)) ?? [];
  provider.allow(to);
  for (const one of tabs) {
    await one.answers((answer) => answer === counted(to), `${name}: all of it is there`);
    await one.is("ended");
    await one.sawOnly(question, counted(to));
  }
  const [first, ...others] = tabs;
  assert.equal(await first?.logged(stream), counted(to), "the server's log has it");
  for (const other of others) await other.page.close();
  return first ?? Tab.open(moment.context, server.url);
}

/** A message to a dead server waits for it. */
export async function holdsUnsent({ server, provider, to }: Moment, tab: Tab): Promise<void> {
  const question = `count to ${to}`;
  await tab.begin();
  provider.allow(to);
  await server.kill();
  await tab.say(question);
  await tab.is(/connecting/);
  await server.startAgain();
  await tab.answers((answer) => answer === counted(to), "it is answered");
  await tab.is("ended");
  await tab.sawOnly(question, counted(to));
  assert.equal(await tab.logged(await tab.stream()), counted(to), "the server's log has it");
}

/** A tool that waits for a yes is asked for again, and runs once. */
export async function holdsApproval({ server, at }: Moment, tab: Tab): Promise<void> {
  await tab.begin();
  await tab.say(`call write_note {"name":"n${at}","text":"once"}`);
  await tab.page.getByRole("group", { name: "Allow write_note?" }).waitFor();
  await server.kill();
  await server.startAgain();
  await tab.is("live");
  await tab.press(/^Allow/);
  const said = `The tool's outcome is "done": the note "n${at}" is written`;
  await tab.answers((answer) => answer.startsWith(said), "it has run");
  await tab.is("ended");
}
