// These tests share one bus with two web processes. The later ones announce errors, which those before them may not log.
import './unsubscribing.ts';
import './giving_topics.ts';
import './web_processes.ts';
