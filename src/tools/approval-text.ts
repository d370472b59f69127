/**
 * An exec in words for the one who is asked to approve it: what it would do, completely, with nothing hidden.
 */
import type { Content, ExecServerMessage } from "../protocol/messages.ts";
import { visibleLine, visibleText } from "./visible-text.ts";

export interface ApprovalText {
  /** One line. */
  readonly title: string;
  /** All arguments; line breaks of a command or a content stand as they are. */
  readonly text: string;
}

type Field = readonly [name: string, value: string];

/** More blanks than this in a row could push what follows out of sight. */
const BLANKS = / {100,}/g;

export function approvalText({ message }: ExecServerMessage, tool: string): ApprovalText {
  const { subject, fields } = describe(message);
  const title = visibleLine(subject === "" ? tool : `${tool}: ${subject}`);
  const text = fields
    .filter(([, value]) => value !== "")
    .map(([name, value]) => fieldText(name, value))
    .join("\n");
  return { title, text };
}

/** Further lines are set in, so that none of them looks like a field of its own. */
function fieldText(name: string, value: string): string {
  const shown = visibleText(value).replace(BLANKS, (blanks) => `[${blanks.length} spaces]`);
  return shown.includes("\n") ? `${name}:\n  ${shown.replaceAll("\n", "\n  ")}` : `${name}: ${shown}`;
}

function describe(message: ExecServerMessage["message"]): { subject: string; fields: readonly Field[] } {
  switch (message.case) {
    case "shellArgs":
    case "shellStreamArgs": {
      const { command, workingDirectory, timeoutMs, description } = message.value;
      const fields: Field[] = [
        ["command", command],
        ["working directory", workingDirectory],
        ["timeout", timeoutMs === undefined ? "" : `${timeoutMs} ms`],
        ["why, as the model says", description],
      ];
      return { subject: command, fields };
    }
    case "writeArgs":
      return {
        subject: message.value.path,
        fields: [
          ["path", message.value.path],
          ["content", contentText(message.value.content)],
        ],
      };
    case "deleteArgs":
      return { subject: message.value.path, fields: [["path", message.value.path]] };
    case "mcpArgs": {
      const { server, argsJson } = message.value;
      const text = plainJson(contentText(argsJson));
      return {
        subject: text,
        fields: [
          ["MCP server", server],
          ["arguments", text],
        ],
      };
    }
    case "subagentArgs": {
      const { description, prompt, model, readOnly } = message.value;
      const fields: Field[] = [
        ["task", contentText(prompt)],
        ["model", model],
        ["tools", readOnly ? "only those without effects" : ""],
      ];
      return { subject: description, fields };
    }
    case "grepArgs":
      return {
        subject: message.value.pattern,
        fields: [
          ["pattern", message.value.pattern],
          ["path", message.value.path],
        ],
      };
    case "globArgs":
      return {
        subject: message.value.pattern,
        fields: [
          ["pattern", message.value.pattern],
          ["path", message.value.path],
        ],
      };
    case "readArgs":
    case "lsArgs":
      return { subject: message.value.path, fields: [["path", message.value.path]] };
    case undefined:
      return { subject: "", fields: [] };
  }
}

function contentText(content: Content | undefined): string {
  switch (content?.content.case) {
    case "inline":
      return new TextDecoder("utf-8", { ignoreBOM: true }).decode(content.content.value);
    case "blobId":
      return `${content.sizeBytes} bytes, too many to show; SHA-256 ${Buffer.from(content.content.value).toString("hex")}`;
    case undefined:
      return "";
  }
}

/** As it will be read: an escape can hide a letter, and of two fields of one name the last one counts. */
function plainJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
