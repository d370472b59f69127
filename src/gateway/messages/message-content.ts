/**
 * The blocks of a message: text, images, documents, search results; and of a tool's result the same.
 *
 * What no model here is given (what a provider's own tools did, uploads) is left out, and named in `x-holdfast-ignored`. What would change the answer in another
 * way and cannot be done (an address that this server does not pass on, data that is none) is refused.
 */
import {
  cacheControlOf,
  type ContentRules,
  decodeBase64,
  type Fields,
  invalidRequest,
  type LineFile,
  type LinePart,
  type LineText,
} from "../openai/index.ts";

export interface ContentReader {
  readonly rules: ContentRules;
  /** Called with the name of what is left out. */
  readonly ignore: (name: string) => void;
}

/** The blocks of a member that is a text or a list. */
export function blocksOf(holder: Fields, name: string): readonly Fields[] | string {
  const given = holder.raw(name);
  if (given === undefined) return "";
  if (typeof given === "string") return given;
  if (!Array.isArray(given)) throw holder.wrong(name, "must be a string or a list of blocks");
  return holder.objects(name) ?? [];
}

export function partsOf(blocks: readonly Fields[] | string, reader: ContentReader): readonly LinePart[] {
  if (typeof blocks === "string") return blocks === "" ? [] : [{ type: "text", text: blocks }];
  return blocks.flatMap((block) => partOf(block, reader));
}

function partOf(block: Fields, reader: ContentReader): readonly LinePart[] {
  const type = block.needText("type");
  const marked = cacheControlOf(block);
  switch (type) {
    case "text": {
      const text = block.textOr("text", "");
      return text === "" ? [] : [{ type: "text", text, ...marked }];
    }
    case "image":
      return [{ ...sourceOf(block, "image/*", reader.rules), ...marked }];
    case "document":
      return documentParts(block, reader).map((part) => Object.assign(part, marked));
    case "search_result":
      return [{ ...searchResult(block, reader), ...marked }];
    // How Claude Code's search of tools names what it has found.
    case "tool_reference":
      return [{ type: "text", text: `Tool: ${block.textOr("tool_name", "")}` }];
    default:
      reader.ignore(`content.${type}`);
      return [];
  }
}

/** `otherwise`: the type of what is elsewhere. */
function sourceOf(block: Fields, otherwise: string, rules: ContentRules): LineFile {
  const source = block.needObject("source");
  const type = source.needText("type");
  if (type === "base64") {
    const bytes = decodeBase64(source.textOr("data", "").replaceAll(/\s/g, ""));
    if (bytes === undefined) throw source.wrong("data", "must hold base64 data");
    return { type: "file", mediaType: source.needText("media_type").toLowerCase(), bytes };
  }
  if (type !== "url") {
    throw source.unsupported("type", "there are no uploaded files here; send the data itself as base64");
  }
  const url = source.needText("url");
  const path = source.pathOf("url");
  if (!/^https?:\/\//i.test(url)) throw invalidRequest(path, `${path} must be an http or https address`);
  if (rules.allowRemoteImages) return { type: "file", mediaType: otherwise, url };
  throw source.unsupported("url", "this server fetches nothing remote; send the data itself as base64");
}

function documentParts(block: Fields, reader: ContentReader): readonly LinePart[] {
  for (const name of ["citations", "context"]) if (block.has(name)) reader.ignore(`document.${name}`);
  const source = block.needObject("source");
  const title = block.text("title");
  const named = title === undefined ? {} : { fileName: title };
  switch (source.text("type")) {
    case "text": {
      const bytes = new TextEncoder().encode(source.textOr("data", ""));
      return bytes.length === 0 ? [] : [{ type: "file", mediaType: "text/plain", bytes, ...named }];
    }
    case "content":
      return partsOf(blocksOf(source, "content"), reader);
    default: {
      const file = sourceOf(block, "application/pdf", reader.rules);
      return ["bytes" in file ? { ...file, ...named } : file];
    }
  }
}

function searchResult(block: Fields, reader: ContentReader): LineText {
  if (block.has("citations")) reader.ignore("search_result.citations");
  const parts = partsOf(blocksOf(block, "content"), reader);
  const texts = parts.map((part) => (part.type === "text" ? part.text : ""));
  const text = [`${block.textOr("title", "")} (${block.textOr("source", "")})`, ...texts].join("\n");
  return { type: "text", text };
}
