import type { RouteText } from './chapters.ts';
import { FLOW_TEXTS } from './flow_texts.ts';
import { RECORD_TEXTS } from './record_texts.ts';
import { TOPIC_TEXTS } from './topic_texts.ts';

/** What the documentation says about each route. A test compares it with the route table. */
export const TEXTS: Record<string, RouteText> = { ...TOPIC_TEXTS, ...FLOW_TEXTS, ...RECORD_TEXTS };
