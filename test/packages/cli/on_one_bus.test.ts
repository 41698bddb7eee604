// These tests share one bus, because its start takes as much CPU as a dozen commands. The doctor comes last: its last
// tests break the bus.
import './ruby_commands.ts';
import './pub.ts';
import './listen.ts';
import './wrong_address.ts';
import './sub_topic_and_token.ts';
import './trigger_and_dead.ts';
import './join.ts';
import './ending.ts';
import './tail.ts';
import './audit_and_delivery.ts';
import './verify.ts';
import './proxied.ts';
import './empty_uuid.ts';
import './doctor_subscribers.ts';
import './doctor.ts';
