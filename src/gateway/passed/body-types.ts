/**
 * The forms of a body that names its model: JSON, and forms with files.
 */
import { GatewayError } from "../openai/index.ts";
import { FormModel } from "./form-model.ts";
import { JsonModel } from "./json-model.ts";
import type { ModelFinder } from "./model-field.ts";

const JSON_TYPE = /^application\/json(?:\s*;.*)?$/i;
const FORM_TYPE = /^multipart\/form-data\s*;\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s";,]{1,70}))\s*$/i;

export function finderFor(contentType: string | undefined): ModelFinder {
  const type = contentType?.trim() ?? "";
  if (JSON_TYPE.test(type)) return new JsonModel();
  const form = FORM_TYPE.exec(type);
  const boundary = form?.[1] ?? form?.[2];
  if (boundary !== undefined) return new FormModel(boundary);
  throw new GatewayError({
    status: 415,
    type: "invalid_request_error",
    code: "unsupported_media_type",
    message: "Send the request as application/json, or as multipart/form-data with a boundary.",
  });
}
