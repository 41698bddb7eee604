// These tests share one bus, because its start takes as much CPU as most of them together. The later ones announce
// errors, which those before them may not log.
import './release.ts';
import './delivery.ts';
import './tls.ts';
import './dead_letters.ts';
import './sweep.ts';
