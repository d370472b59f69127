/**
 * How the user runs `holdfast` again: what every message prints, so that it can be pasted as it stands.
 *
 * Where the package lies decides. Within its checkout, or within the project that has it installed, npx finds it; elsewhere the shell does, if
 * it was installed globally; and else only its path leads to it.
 */
import { existsSync, realpathSync } from "node:fs";
import { delimiter, join, relative, sep } from "node:path";
import { shellWord } from "../protocol/shell-word.ts";
import type { Surroundings } from "./terminal.ts";

interface Installation {
  /** The package's directory, without symbolic links. */
  readonly root: string;
  readonly cwd: string;
  /** The shell finds `holdfast`, and it is this one. */
  readonly isOnPath: boolean;
  /** The Node that runs this process. */
  readonly node: string;
}

export function ownCommand({ root, cwd, isOnPath, node }: Installation): string {
  if (isWithin(cwd, projectOf(root)) || root.includes(NPX_CACHE)) return "npx holdfast";
  if (isOnPath) return "holdfast";
  return `${shellWord(node)} ${shellWord(join(root, BIN))}`;
}

/** Of this process. */
export function installation(cwd: string, env: Surroundings["env"]): Installation {
  const root = realpathSync(join(import.meta.dirname, "../.."));
  const bin = join(root, BIN);
  const isOnPath = (env["PATH"] ?? "")
    .split(delimiter)
    // npm and npx put these in front for their children; the user's shell does not have them.
    .filter((directory) => directory !== "" && !directory.endsWith(join("node_modules", ".bin")))
    .map((directory) => join(directory, "holdfast"))
    .some((found) => existsSync(found) && realpathSync(found) === bin);
  return { root, cwd, isOnPath, node: process.execPath };
}

const BIN = join("bin", "holdfast.js");
const NPX_CACHE = `${sep}_npx${sep}`;

/** The checkout itself, or the project in whose `node_modules` the package lies. */
function projectOf(root: string): string {
  const at = root.indexOf(`${sep}node_modules${sep}`);
  return at === -1 ? root : root.slice(0, at);
}

function isWithin(directory: string, parent: string): boolean {
  const way = relative(parent, directory);
  return way !== ".." && !way.startsWith(`..${sep}`);
}

const BARE = /(?<!npx )\bholdfast (?=(?:serve|chat|inspect|keys|sessions|demo|doctor|backup)\b)/g;

/** For messages from below the command line, which cannot know how the user runs it and write `holdfast doctor`. */
export function pastable(message: string, command: string): string {
  return message.replaceAll(BARE, () => `${command} `);
}
