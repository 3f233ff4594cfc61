// Original file: proto/provision.proto

import type { PayloadType as _tool_PayloadType, PayloadType__Output as _tool_PayloadType__Output } from '../tool/PayloadType.ts';

export interface Configuration {
  'type'?: (_tool_PayloadType);
  'name'?: (string);
  'payload'?: (string);
}

export interface Configuration__Output {
  'type': (_tool_PayloadType__Output);
  'name': (string);
  'payload': (string);
}
