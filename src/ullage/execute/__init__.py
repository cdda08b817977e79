"""Maps over several cores or machines, handed to core functions as `map=`."""
