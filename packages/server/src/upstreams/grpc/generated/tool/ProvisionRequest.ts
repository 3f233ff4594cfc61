// Original file: proto/provision.proto

import type { Configuration as _tool_Configuration, Configuration__Output as _tool_Configuration__Output } from '../tool/Configuration.ts';
import type { Secret as _tool_Secret, Secret__Output as _tool_Secret__Output } from '../tool/Secret.ts';

export interface ProvisionRequest {
  'uri'?: (string);
  'configuration'?: (_tool_Configuration | null);
  'secret'?: (_tool_Secret | null);
}

export interface ProvisionRequest__Output {
  'uri': (string);
  'configuration': (_tool_Configuration__Output | null);
  'secret': (_tool_Secret__Output | null);
}
