/**
 * The rules of style that a program can check, each a function from a source file to what breaks it.
 */
import { isBrowserCode } from "./imports.ts";
import { matches, violation, type Source, type Violation } from "./source.ts";

const linesMax = 400;

const inSource = ({ path }: Source): boolean => path.startsWith("src/");
const isGenerated = ({ path }: Source): boolean => path.startsWith("src/protocol/gen/");
/** The rules' own samples break the rules on purpose. */
const isSample = ({ path }: Source): boolean => path.startsWith("test/tidy");

/** A file has one subject: 400 lines hold it. */
export function checkLength(file: Source): Violation[] {
  if (!/^(?:src|web|test)\//.test(file.path) || isGenerated(file)) return [];
  const lines = file.text.replace(/\n$/, "").split("\n").length;
  if (lines <= linesMax) return [];
  return [
    { path: file.path, line: linesMax + 1, message: `${String(lines)} lines, at most ${String(linesMax)}` },
  ];
}

const nodeGlobals =
  /(?<![.\w$])(?:Buffer|NodeJS|process|global|require|__dirname|__filename|setImmediate|clearImmediate)\b(?!\s*\??:)/g;

/** Browser code names nothing that only Node has. */
export function checkNodeGlobals(file: Source): Violation[] {
  if (!isBrowserCode(file.path) || isGenerated(file)) return [];
  return matches(file, "code", nodeGlobals, (name) => `browser code uses ${name}, which only Node has`);
}

const impure =
  /(?<![.\w$])(?:Math\s*\.\s*random|(?:Date|Temporal|Intl|performance|crypto|fetch|process|globalThis|window|self|async|await|Promise|setTimeout|setInterval|setImmediate|queueMicrotask|requestAnimationFrame|WebSocket|XMLHttpRequest|localStorage|indexedDB)\b)/g;

/** A machine and a fold have no clock, no randomness and no I/O: they come in as inputs and go out as effects. */
export function checkPurity(file: Source): Violation[] {
  const room = /^src\/(?<room>core|turn)\//.exec(file.path)?.groups?.["room"];
  if (room === undefined) return [];
  return matches(file, "code", impure, (name) => `${room} is pure, but uses ${name}`);
}

/** A file says at its top what it is. */
export function checkOpening(file: Source): Violation[] {
  if (!inSource(file) || isGenerated(file) || file.path.endsWith("/index.ts")) return [];
  const body = file.text.replace(/^#!.*\n/, "");
  return body.startsWith("/**") ? [] : [violation(file, 0, "does not open with a /** comment")];
}

const bannedNames = [/^(?:utils?|helpers?|common|misc)$/i, /manager/i, /Impl|(?:^|[-_.])impl(?:[-_.]|$)/];
const bannedDeclarations = /(?<![.\w$])(?:class|interface|type)\s+\w*(?:Manager|Impl)\b/g;

/** A name says what a thing does. These say that nobody decided. */
export function checkNames(file: Source): Violation[] {
  if (isGenerated(file)) return [];
  const parts = file.path.split("/").map((part) => part.replace(/(?:\.test)?\.\w+$/, ""));
  const banned = parts.filter((part) => bannedNames.some((pattern) => pattern.test(part)));
  if (/(?:^|\/)types\.ts$/.test(file.path)) banned.push("types");
  return [
    ...banned.map((name) => violation(file, 0, `"${name}" is no name for a file or folder`)),
    ...matches(file, "code", bannedDeclarations, (found) => `"${found}" does not say what it does`),
  ];
}

/** What is not done is an issue, not a remark in the source. */
export function checkUnfinished(file: Source): Violation[] {
  if (isGenerated(file) || isSample(file)) return [];
  return matches(file, "text", /(?<!BlobKind\.)\b(?:TODO|FIXME|XXX)\b/g, (word) => `${word} in the source`);
}

const switchedOff =
  /(?<![\w$])(?:test|it|describe|suite|context|t)\s*\.\s*(?:only|skip|todo)\b|(?<![.\w$])(?:only|skip|todo)\s*:\s*(?:true\b|["'`])/g;

/** Every test runs, every time. */
export function checkSwitchedOff(file: Source): Violation[] {
  if (!file.path.startsWith("test/")) return [];
  return matches(file, "code", switchedOff, (found) => `a test is switched off or singled out: ${found}`);
}

/** A library does not write to the console of whoever uses it. */
export function checkConsole(file: Source): Violation[] {
  if (!inSource(file)) return [];
  return matches(file, "code", /(?<![.\w$])console\s*\.\s*\w+/g, (call) => `${call} in a library`);
}

const bluntCut = /\.slice\((?:0, |-)(?:\w+\.)*(?:\w*_CHARS_MAX|\w*[cC]harsMax)\b/g;

/** Text is cut where `characters.ts` says: between its halves a character has no bytes. */
export function checkCuts(file: Source): Violation[] {
  if (!inSource(file) || file.path === "src/protocol/characters.ts") return [];
  return matches(file, "code", bluntCut, (found) => `"${found}" may cut a character in two`);
}

export const styleRules = [
  checkLength,
  checkNodeGlobals,
  checkPurity,
  checkOpening,
  checkNames,
  checkUnfinished,
  checkSwitchedOff,
  checkConsole,
  checkCuts,
] as const;
