import type { RouteText } from './chapters.ts';
import { FLOW_TEXTS } from './flow_texts.ts';
import { RECORD_TEXTS } from './record_texts.ts';
import { TOPIC_TEXTS } from './topic_texts.ts';

/** The documentation of every route. A test checks that no route of the route table is missing here. */
export const TEXTS: Record<string, RouteText> = { ...TOPIC_TEXTS, ...FLOW_TEXTS, ...RECORD_TEXTS };
