/** The AI SDK's `useChat` over Holdfast, for servers: what pages get, and an application's own route. */
export * from "../ai-sdk/index.ts";
export { type AnswerOptions, type AnswerSource, Chats, type ChatsOptions, openChats } from "./chats.ts";
