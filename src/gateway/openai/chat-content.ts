/**
 * The content of a chat message: a text, or parts of text, images and files.
 *
 * Images come as `data:` URLs and are decoded here, once. A remote address would make its fetcher reach where the
 * client cannot, so the gateway refuses it unless the operator allows it. Then the provider fetches it.
 */
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { Fields } from "./fields.ts";
import { type GatewayError, invalidRequest } from "./gateway-error.ts";
import type { LineFile, LinePart, LineText } from "./line.ts";

export interface ContentRules {
  readonly allowRemoteImages: boolean;
}

/** Undefined when there is none: absent, null. A text is one part. */
export function contentParts(message: Fields, rules: ContentRules): readonly LinePart[] | undefined {
  const content = message.raw("content");
  if (content === undefined) return undefined;
  if (typeof content === "string") return [{ type: "text", text: content, ...cacheControlOf(message) }];
  if (!Array.isArray(content)) throw message.wrong("content", "must be a string or a list of parts");
  return (message.objects("content") ?? []).flatMap((part) => contentPart(part, rules));
}

function contentPart(part: Fields, rules: ContentRules): readonly LinePart[] {
  const type = part.needText("type");
  switch (type) {
    case "text":
    // Other dialects' names for the same, seen from clients that mix them.
    case "input_text":
    case "output_text":
      return [{ type: "text", text: part.textOr("text", ""), ...cacheControlOf(part) }];
    case "image_url":
      return [{ ...imagePart(part, rules), ...detailOf(part), ...cacheControlOf(part) }];
    case "file":
      return [{ ...filePart(part), ...cacheControlOf(part) }];
    // What a model said when it refused is not part of the conversation.
    case "refusal":
    // Reasoning in parts has no form that all agree on, and no provider takes it back from another.
    case "thinking":
    case "reasoning":
      return [];
    default:
      throw part.unsupported(
        "type",
        `parts of type ${JSON.stringify(type)} are not supported; send text or image_url`,
      );
  }
}

/** Not checked: providers have words of their own for it. */
function detailOf(part: Fields): { readonly detail?: string } {
  const given = part.raw("image_url");
  const detail = typeof given === "string" ? undefined : part.needObject("image_url").text("detail");
  return detail === undefined ? {} : { detail };
}

/** A client's mark for a provider's prompt cache: known by its name, and passed on as it stands. */
export function cacheControlOf(holder: Fields): { readonly cacheControl?: JsonObject } {
  const given = holder.raw("cache_control");
  return isJsonObject(given) ? { cacheControl: given } : {};
}

export function imagePart(part: Fields, rules: ContentRules): LineFile {
  const given = part.raw("image_url");
  const url = typeof given === "string" ? given : part.needObject("image_url").needText("url");
  const path = `${part.pathOf("image_url")}.url`;
  if (/^data:/i.test(url)) return { type: "file", ...decodeDataUrl(url, path) };
  if (!/^https?:\/\//i.test(url)) throw invalidRequest(path, `${path} must be a data: URL with base64 data`);
  if (rules.allowRemoteImages) return { type: "file", mediaType: "image/*", url };
  throw invalidRequest(
    path,
    `${path}: this server fetches no remote images; send the image itself as a data: URL`,
    "unsupported_value",
  );
}

function filePart(part: Fields): LineFile {
  return fileOf(part.needObject("file"));
}

export function fileOf(file: Fields): LineFile {
  const data = file.text("file_data");
  if (data === undefined) {
    throw file.unsupported("file_id", "there are no uploaded files here; send file_data as a data: URL");
  }
  const fileName = file.text("filename");
  const decoded = decodeDataUrl(data, file.pathOf("file_data"));
  return { type: "file", ...decoded, ...(fileName === undefined ? {} : { fileName }) };
}

const DATA_URL = /^data:([a-z0-9.+-]+\/[a-z0-9.+*-]+)((?:;[^;,]*)*),/i;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

/** Throws for anything but base64: half an image is worse than none. */
function decodeDataUrl(url: string, path: string): { mediaType: string; bytes: Uint8Array } {
  // Only the beginning is matched against the pattern: the data may have megabytes.
  const head = DATA_URL.exec(url.slice(0, 256));
  const mediaType = head?.[1]?.toLowerCase();
  if (head === null || mediaType === undefined || !/;base64$/i.test(head[2] ?? "")) throw notData(path);
  const bytes = decodeBase64(url.slice(head[0].length));
  if (bytes === undefined) throw notData(path);
  return { mediaType, bytes };
}

/** Undefined for anything but base64, and for nothing. */
export function decodeBase64(data: string): Uint8Array | undefined {
  const bytes = BASE64.test(data) ? new Uint8Array(Buffer.from(data, "base64")) : undefined;
  return bytes?.length === 0 ? undefined : bytes;
}

function notData(path: string): GatewayError {
  return invalidRequest(path, `${path} must look like data:image/png;base64,... and hold base64 data`);
}

/** Of parts that hold nothing else; the files are the caller's to place. */
export function textOfParts(parts: readonly LinePart[]): string {
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

export function textsOfParts(parts: readonly LinePart[]): readonly LineText[] {
  return parts.filter((part) => part.type === "text");
}

export function filesOfParts(parts: readonly LinePart[]): readonly LineFile[] {
  return parts.filter((part) => part.type === "file");
}
