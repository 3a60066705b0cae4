from typing import Any

bfloat16: Any
