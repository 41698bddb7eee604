// These tests share one web process and its Redis, because their start takes half a second of CPU.
import './answers.ts';
import './requests.ts';
import './values.ts';
import './slow_bodies.ts';
